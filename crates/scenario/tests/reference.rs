//! The tables of `docs/reference/scenario.md` and `docs/reference/presets.md` have every section, key and default.
//!
//! `UPDATE_REFERENCE=1 cargo test -p penstock-scenario --test reference` writes the tables.

use penstock_scenario::reference::Parameter;
use penstock_scenario::reference::PartnerInfo;
use penstock_scenario::{algorithms, presets, sections};
use std::collections::BTreeMap;
use std::path::Path;

fn row(parameter: &Parameter) -> String {
    let Parameter { key, default, unit, value_type, meaning, .. } = parameter;
    let default = match (default.as_str(), default.strip_prefix("as ")) {
        ("", _) => "required".to_owned(),
        (_, Some(other)) => format!("as `{other}`"),
        (default, None) => format!("`{default}`"),
    };
    format!("| `{key}` | {default} | {unit} | {value_type} | {meaning} |")
}

/// A value of another key with which an algorithm has no effect, or with which Penstock refuses the algorithm.
fn line(kind: &str, partner: &PartnerInfo) -> String {
    let PartnerInfo { key, not, refused, why } = partner;
    if *refused {
        format!("Penstock refuses `{kind}` with `{key} = \"{not}\"`, because `{kind}` {why}.")
    } else {
        format!(
            "Penstock accepts `{kind}` with `{key} = \"{not}\"`, but `{kind}` then has no effect, because it {why}."
        )
    }
}

/// The generated lines below each heading: the rows of a table, and the exclusions of an algorithm.
fn generated() -> BTreeMap<String, [Vec<String>; 2]> {
    let all = sections();
    let of_section = all.iter().map(|section| {
        // `[relays.NAME]` has the keys of `[relay]`, and the page lists only its own.
        let base = section.title.replace("s.NAME]", "]");
        let base = all.iter().find(|other| other.title == base && other.title != section.title);
        let parameters = section.parameters.iter();
        let own = parameters.filter(|parameter| base.is_none_or(|base| !base.parameters.contains(parameter)));
        (section.title.to_owned(), [own.map(row).collect(), Vec::new()])
    });
    let of_algorithm = algorithms().into_iter().map(|algorithm| {
        let rows = algorithm.parameters.iter().map(row).collect();
        let partners = algorithm.partners.iter().map(|partner| line(algorithm.kind, partner)).collect();
        (format!("{} = \"{}\"", algorithm.key, algorithm.kind), [rows, partners])
    });
    of_section.chain(of_algorithm).collect()
}

/// Whether a line is a generated line, and of which kind.
fn is_generated(line: &str) -> Option<usize> {
    let partner = ["Penstock refuses `", "Penstock accepts `"];
    match line {
        _ if line.starts_with("| `") => Some(0),
        _ if partner.iter().any(|start| line.starts_with(start)) => Some(1),
        _ => None,
    }
}

/// The page with new generated lines, each kind at the place of its first old line.
fn with_tables(page: &str) -> String {
    let mut all = generated();
    let (mut out, mut here) = (String::new(), None);
    for line in page.lines() {
        if line.starts_with('#') {
            let heading = line.strip_prefix("### `").and_then(|line| line.strip_suffix('`'));
            here = heading.map(|name| all.remove(name).unwrap_or_else(|| panic!("there is no {name}")));
        }
        match (&mut here, is_generated(line)) {
            (Some(lines), Some(kind)) => {
                for line in std::mem::take(&mut lines[kind]) {
                    out += &(line + "\n");
                }
            }
            _ => out += &format!("{line}\n"),
        }
    }
    assert!(all.is_empty(), "the page has no heading for {:?}", all.keys());
    out
}

/// Compares a page with the generated one, or writes it.
fn check(name: &str, generate: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let right = generate(&page);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(path, right).unwrap();
        return;
    }
    let differs = page.lines().zip(right.lines()).find(|(page, right)| page != right);
    assert_eq!(differs, None, "{name}: UPDATE_REFERENCE=1 writes its tables");
    assert_eq!(page.lines().count(), right.lines().count(), "{name}: UPDATE_REFERENCE=1 writes its tables");
}

#[test]
fn the_reference_page_has_every_key_with_its_default() {
    check("scenario.md", with_tables);
}

#[test]
fn the_page_of_presets_has_every_key_of_each() {
    let all = presets();
    let keys = all[0].values.iter().enumerate().map(|(index, (key, _))| {
        let values: Vec<String> = all.iter().map(|preset| format!("`{}`", preset.values[index].1)).collect();
        format!("| `{key}` | {} |\n", values.join(" | "))
    });
    let rows: String = keys.collect();
    let heading = all.iter().map(|preset| format!(" `{}` |", preset.name)).collect::<String>();
    check("presets.md", |page| {
        assert!(all.iter().all(|preset| page.contains(&format!("### `{}`", preset.name))));
        let (before, table) =
            page.split_once(&format!("| key |{heading}\n")).expect("the page has the table");
        let (line, table) = table.split_once('\n').unwrap();
        let after: Vec<&str> = table.lines().skip_while(|line| line.starts_with('|')).collect();
        let end = if after.is_empty() { String::new() } else { after.join("\n") + "\n" };
        format!("{before}| key |{heading}\n{line}\n{rows}{end}")
    });
}
