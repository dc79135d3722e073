//! Names the build: `PENSTOCK_VERSION` has the version, the commit, and a digest of changed files.
//!
//! | source | version |
//! |---|---|
//! | commit without a tag | `0.1.0+g1234567`, with the version of Cargo.toml |
//! | commit with the tag `v0.2.0` | `0.2.0+g1234567` |
//! | 3 commits after this tag | `0.2.0+3.g1234567` |
//! | changed files in `crates`, Cargo.toml or Cargo.lock | `0.1.0+g1234567.dirty.89abcdef`, with a digest of these files |
//! | algorithms of another crate | `0.1.0+g1234567.with.short-queues.89abcdef`, with a digest of that crate |
//! | no git | `0.1.0+unknown`, or `0.1.0+g1234567` with the commit of the environment variable `PENSTOCK_COMMIT` |
//!
//! Only this crate has the name, so that a commit rebuilds no other crate.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The compiled files, relative to the workspace.
const SOURCES: [&str; 3] = ["crates", "Cargo.toml", "Cargo.lock"];

fn main() {
    for name in ["PENSTOCK_COMMIT", "PENSTOCK_SOURCES", "PENSTOCK_PLUGINS", "PENSTOCK_WITH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let variable = |name: &str| env::var(name).unwrap_or_default();
    // `penstock build` compiles this crate by a manifest outside of the workspace.
    let root = match &variable("PENSTOCK_SOURCES")[..] {
        "" => PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../.."),
        sources => PathBuf::from(sources),
    };
    let version = version(&root, &variable("CARGO_PKG_VERSION"), &variable("PENSTOCK_COMMIT"));
    println!("cargo:rustc-env=PENSTOCK_VERSION={version}{}", variable("PENSTOCK_WITH"));
    plugins(&variable("PENSTOCK_PLUGINS"), &variable("OUT_DIR"));
    println!("cargo:rustc-env=PENSTOCK_TARGET={}", variable("TARGET"));
    let rustc = output(Command::new(variable("RUSTC")).arg("--version")).unwrap_or_default();
    println!("cargo:rustc-env=PENSTOCK_RUSTC={rustc}");
}

/// Writes the calls that register the algorithms of the crates `names`, which are separated by spaces.
fn plugins(names: &str, out: &str) {
    let calls: String =
        names.split_whitespace().map(|name| format!("    ::{name}::register(plugins);\n")).collect();
    let function =
        format!("fn register(plugins: &mut plugin::Plugins) {{\n    let _ = &plugins;\n{calls}}}\n");
    fs::write(Path::new(out).join("register.rs"), function)
        .expect("cargo makes OUT_DIR before it starts this program");
}

fn version(root: &Path, cargo: &str, commit: &str) -> String {
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", root.join(source).display());
    }
    if !commit.is_empty() {
        return format!("{cargo}+g{}", short(commit));
    }
    // An unpacked archive can lie in the repository of another project.
    let is_own = git(root, &["rev-parse", "--show-toplevel"])
        .is_some_and(|top| fs::canonicalize(top).ok() == fs::canonicalize(root).ok());
    let Some(commit) = git(root, &["rev-parse", "HEAD"]).filter(|_| is_own) else {
        return format!("{cargo}+unknown");
    };
    // The log of HEAD changes with each commit, checkout and reset; a tag changes no log.
    for path in ["HEAD", "logs/HEAD", "packed-refs", "refs/tags"] {
        let path = git(root, &["rev-parse", "--git-path", path]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    let (tag, distance) = tag(root).unwrap_or_else(|| (cargo.to_owned(), String::new()));
    format!("{tag}+{distance}g{}{}", short(&commit), changed(root))
}

fn short(commit: &str) -> &str {
    &commit[..commit.len().min(7)]
}

/// The version of the last tag, and the number of commits after it with a dot; empty at the tag.
fn tag(root: &Path) -> Option<(String, String)> {
    let described = git(root, &["describe", "--tags", "--long", "--match", "v[0-9]*"])?;
    let (rest, _commit) = described.rsplit_once('-')?;
    let (tag, distance) = rest.rsplit_once('-')?;
    let distance = if distance == "0" { String::new() } else { format!("{distance}.") };
    Some((tag.strip_prefix('v')?.to_owned(), distance))
}

/// `.dirty` and a digest of the compiled files that differ from the commit; empty if all are the same.
fn changed(root: &Path) -> String {
    let names = |command: &[&str]| git(root, &[command, &["--"], &SOURCES].concat()).unwrap_or_default();
    let mut files = names(&["diff", "--name-only", "HEAD"]);
    files.push('\n');
    files += &names(&["ls-files", "--others", "--exclude-standard"]);
    let mut files: Vec<_> = files.lines().filter(|file| !file.is_empty()).collect();
    if files.is_empty() {
        return String::new();
    }
    files.sort_unstable();
    // The 32-bit FNV-1a hash.
    let mut hash = 0x811c_9dc5_u32;
    for file in files {
        let content = fs::read(root.join(file)).unwrap_or_default();
        for byte in file.bytes().chain([0]).chain(content).chain([0]) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    format!(".dirty.{hash:08x}")
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    output(Command::new("git").arg("-C").arg(root).args(arguments))
}

fn output(command: &mut Command) -> Option<String> {
    let done = command.output().ok().filter(|done| done.status.success())?;
    Some(String::from_utf8(done.stdout).ok()?.trim().to_owned())
}
