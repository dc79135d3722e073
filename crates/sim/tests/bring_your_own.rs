//! The crate of docs/how-to/plug-in-an-algorithm.md builds, runs, and prints the output on that page.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The page's code blocks in `language`.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut open) = (Vec::new(), None::<String>);
    for line in page.lines() {
        match &mut open {
            None if line == format!("```{language}") => open = Some(String::new()),
            None => {}
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some(block) => *block += &format!("{line}\n"),
        }
    }
    assert!(open.is_none(), "a block does not end");
    blocks
}

/// The page shows every line of the crate in order, and no other lines.
#[test]
fn the_page_shows_the_whole_crate() {
    let page = read("docs/how-to/plug-in-an-algorithm.md");
    let file = |name: &str| read(&format!("examples/bring-your-own/{name}"));
    assert_eq!(blocks(&page, "toml"), [file("Cargo.toml")]);
    let sources = ["least_sent", "short_queues", "main"].map(|name| file(&format!("src/{name}.rs")));
    assert_eq!(blocks(&page, "rust"), sources);
}

/// This package has the crate's program as an example, so that cargo builds it with the workspace's libraries.
#[test]
fn the_crate_prints_the_output_on_the_page() {
    let test = std::env::current_exe().expect("a test has a file");
    // target/debug/deps/NAME
    let built = test.ancestors().nth(2).expect("cargo built this test below its target directory");
    let output = Command::new(built.join("examples/bring-your-own"))
        .arg("../../scenarios/defenestrator/bottleneck.toml")
        .current_dir(root().join("examples/bring-your-own"))
        .output()
        .expect("built by `cargo build --examples`, or by `cargo test` without `--test`");
    let [text, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{said}");
    assert_eq!(blocks(&read("docs/how-to/plug-in-an-algorithm.md"), "text"), [text.into_owned()]);
}

/// The crate could also be built outside the workspace: its lock file is complete, and its manifest
/// names each crate that it uses.
#[test]
fn the_manifest_and_the_lock_file_are_complete() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version=1", "--color=never"])
        .current_dir(root().join("examples/bring-your-own"))
        .output()
        .expect("cargo runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = read("examples/bring-your-own/Cargo.toml");
    for name in ["least_sent", "short_queues", "main"] {
        let source = read(&format!("examples/bring-your-own/src/{name}.rs"));
        for used in source.split("penstock_").skip(1) {
            let used = used.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            assert!(manifest.contains(&format!("penstock-{used} = ")), "{name}.rs uses penstock_{used}");
        }
    }
}
