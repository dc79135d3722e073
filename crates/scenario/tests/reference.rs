//! `docs/reference/scenario.md` says what the parser goes by: every section, every key, every default.

use penstock_scenario::partners::PartnerInfo;
use penstock_scenario::reference::Parameter;
use penstock_scenario::{algorithms, presets, sections};
use std::path::Path;

fn row(parameter: &Parameter) -> String {
    let Parameter { key, default, unit, form, meaning, .. } = parameter;
    let default = match (default.as_str(), default.strip_prefix("as ")) {
        ("", _) => "required".to_owned(),
        (_, Some(other)) => format!("as `{other}`"),
        (default, None) => format!("`{default}`"),
    };
    format!("| `{key}` | {default} | {unit} | {form} | {meaning} |")
}

/// What an algorithm does not go with.
fn line(partner: &PartnerInfo) -> String {
    let PartnerInfo { key, not, refused, why } = partner;
    let verdict = if *refused { "Not" } else { "In vain" };
    format!("{verdict} with `{key} = \"{not}\"`: it {why}.")
}

/// The rows of the table below a heading.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    below(page, heading).filter(|line| line.starts_with("| `")).collect()
}

/// What is below a heading, up to the next one.
fn below<'a>(page: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    let heading = format!("### `{heading}`");
    let below = page.lines().skip_while(move |line| *line != heading).skip(1);
    below.take_while(|line| !line.starts_with('#'))
}

#[test]
fn the_reference_page_has_every_key_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/scenario.md");
    let page = std::fs::read_to_string(path).unwrap();
    let all = sections();
    for section in &all {
        // `[relays.NAME]` has the keys of `[relay]`, and the page lists only its own.
        let base = section.title.replace("s.NAME]", "]");
        let base = all.iter().find(|other| other.title == base && other.title != section.title);
        let own = section
            .parameters
            .iter()
            .filter(|parameter| base.is_none_or(|base| !base.parameters.contains(parameter)));
        assert_eq!(rows(&page, section.title), own.map(row).collect::<Vec<_>>(), "{}", section.title);
    }
    for algorithm in algorithms() {
        let heading = format!("{} = \"{}\"", algorithm.key, algorithm.kind);
        assert!(page.contains(&format!("### `{heading}`")), "{heading}");
        assert_eq!(
            rows(&page, &heading),
            algorithm.parameters.iter().map(row).collect::<Vec<_>>(),
            "{heading}"
        );
        let partners: Vec<&str> = below(&page, &heading)
            .filter(|line| line.starts_with("Not with") || line.starts_with("In vain"))
            .collect();
        assert_eq!(partners, algorithm.partners.iter().map(line).collect::<Vec<_>>(), "{heading}");
    }
    let headings = page.lines().filter(|line| line.starts_with("### `")).count();
    assert_eq!(headings, all.len() + algorithms().len(), "the page lists something that is not there");
}

#[test]
fn the_page_of_presets_has_every_key_of_each() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/presets.md");
    let page = std::fs::read_to_string(path).unwrap();
    let all = presets();
    let keys = all[0].values.iter().enumerate().map(|(index, (key, _))| {
        let values: Vec<String> = all.iter().map(|preset| format!("`{}`", preset.values[index].1)).collect();
        format!("| `{key}` | {} |", values.join(" | "))
    });
    let heading = all.iter().map(|preset| format!(" `{}` |", preset.name)).collect::<String>();
    let table: Vec<&str> =
        page.lines().skip_while(|line| *line != format!("| key |{heading}")).skip(2).collect();
    let rows = table.iter().take_while(|line| line.starts_with('|')).map(|line| line.to_string());
    assert_eq!(rows.collect::<Vec<_>>(), keys.collect::<Vec<_>>());
    assert!(all.iter().all(|preset| page.contains(&format!("### `{}`", preset.name))));
}
