//! Unmodified programs behind the onion proxy: curl and a browser.

use super::exchange::{send, sha256_of};
use super::proxy::{await_ready, network, paths, pinned_path, side_by_side, user_of};
use super::testnet::Proxy;
use super::timed;
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

/// Sizes of downloads [B]; the last is larger than all windows.
const SIZES: [u64; 4] = [1, 20_000, 300_000, 2_000_000];

/// The page loads a picture, a script, and by this script 300 kB, and then shows their number and sum.
const PAGE: &str = r#"<!doctype html><title>a page</title>
<img src="/picture.svg" onload="document.body.dataset.width = this.naturalWidth"><p id="bytes"></p><script src="/script.js"></script>"#;
const PICTURE: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="37" height="11"></svg>"#;
const SCRIPT: &str = "
const request = new XMLHttpRequest();
request.open('GET', '/300000', false);
request.overrideMimeType('text/plain; charset=x-user-defined');
request.send();
let sum = 0;
for (const character of request.responseText) sum += character.charCodeAt(0) & 255;
document.getElementById('bytes').textContent = `${request.responseText.length} bytes, sum ${sum}`;
";

/// A web server on loopback. `/N` has the first N bytes of the sequence of [`send`].
fn web_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("the listener has an address");
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            // A client that disappears ends only its own thread.
            thread::spawn(move || answer(&socket).ok());
        }
    });
    address
}

fn answer(socket: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(socket).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    let mut to = socket;
    let mut head = |status: &str, kind: &str, length: u64| {
        write!(
            to,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
    };
    let (kind, text) = match path {
        "/" => ("text/html", PAGE),
        "/picture.svg" => ("image/svg+xml", PICTURE),
        "/script.js" => ("text/javascript", SCRIPT),
        _ => {
            let Some(bytes) = path.strip_prefix('/').and_then(|bytes| bytes.parse().ok()) else {
                return head("404 Not Found", "text/plain", 0);
            };
            head("200 OK", "application/octet-stream", bytes)?;
            return send(&mut to, bytes);
        }
    };
    head("200 OK", kind, text.len() as u64)?;
    to.write_all(text.as_bytes())
}

/// The output of a program, or `None` if it is not installed.
fn output(program: &str, options: &[String]) -> Option<Vec<u8>> {
    let run = Command::new(program).args(options).stdin(Stdio::null()).output().ok()?;
    assert!(run.status.success(), "{program}: {}", String::from_utf8_lossy(&run.stderr));
    Some(run.stdout)
}

/// Downloads `count` times with curl, and checks each hash.
fn curl(proxy: &Proxy, server: SocketAddr, count: u32) {
    side_by_side(count, |number| {
        let size = SIZES[number as usize % SIZES.len()];
        let user = user_of(number).map_or_else(String::new, |user| format!("{user}:x@"));
        let options = [
            "--silent".to_owned(),
            "--show-error".to_owned(),
            "--proxy".to_owned(),
            format!("socks5h://{user}{}", proxy.socks),
            format!("http://{server}/{size}"),
        ];
        let body = output("curl", &options).expect("curl is installed");
        assert_eq!(body.len() as u64, size, "download {number}");
        assert_eq!(<[u8; 32]>::from(Sha256::digest(&body)), sha256_of(size), "download {number}");
    });
}

/// Loads the page in a headless browser, and checks the picture and what the script received.
fn browse(browser: &str, proxy: &Proxy, server: SocketAddr) {
    let mut sequence = Vec::new();
    send(&mut sequence, 300_000).expect("a vector takes all bytes");
    let sum: u64 = sequence.iter().map(|byte| u64::from(*byte)).sum();
    let options = [
        "--headless=new".to_owned(),
        "--no-sandbox".to_owned(),
        "--disable-gpu".to_owned(),
        "--no-first-run".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        format!("--user-data-dir={}", proxy.path("browser").display()),
        format!("--proxy-server=socks5://{}", proxy.socks),
        // Without this rule, the browser connects to loopback directly.
        "--proxy-bypass-list=<-loopback>".to_owned(),
        "--dump-dom".to_owned(),
        format!("http://{server}/"),
    ];
    let page = output(browser, &options).expect("the browser was found");
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains("data-width=\"37\""), "the picture: {page}");
    assert!(page.contains(&format!("300000 bytes, sum {sum}")), "the script: {page}");
}

/// 501 downloads with curl, a third over each kind of path. A browser, if there is one, loads a page over each.
#[test]
#[ignore = "needs C tor (Debian's package tor) and curl"]
fn curl_and_a_browser_work_through_the_onion_proxy() {
    if output("curl", &["--version".to_owned()]).is_none() {
        println!("skipped: curl is missing");
        return;
    }
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|browser| output(browser, &["--version".to_owned()]).is_some());
    let (network, ours) = network();
    let server = web_server();
    for (number, (name, path)) in paths(&network, &ours).iter().take(3).enumerate() {
        let proxy = network.proxy(&format!("proxy{number}"), &pinned_path(path));
        await_ready(&proxy, server);
        timed(&format!("{name}: 167 downloads with curl"), || curl(&proxy, server, 167));
        assert!(!proxy.circuits().is_empty(), "{name}: the downloads used the proxy's circuits");
        match browser {
            Some(browser) => {
                timed(&format!("{name}: a page in {browser}"), || browse(browser, &proxy, server))
            }
            None => println!("skipped: the page in a browser: Chromium is missing"),
        }
    }
}
