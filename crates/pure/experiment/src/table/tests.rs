//! Compares cells with values computed by hand, and tests claims over columns.

use crate::judge::fixture::{Study, StudyPoint};
use crate::{ClaimVerdict, Level, Status, TableResult};

const FACTORS: &[(&str, &[&str])] = &[("transport", &["tcp", "sctp"]), ("alpha", &["1", "2", "4"])];

/// TCP has 100 + 10 α, SCTP 200 + α. ±1 is added, with a sign that alternates by replication and is the same at all
/// points.
fn value(place: &StudyPoint<'_>) -> f64 {
    let swing = if place.replication.is_multiple_of(2) { 1.0 } else { -1.0 };
    let alpha = place.number("alpha");
    swing + if place.level("transport") == "tcp" { 100.0 + 10.0 * alpha } else { 200.0 + alpha }
}

fn table(text: &str) -> TableResult {
    Study::new(FACTORS).table("t", text).run(4, value).judge().tables.remove(0)
}

fn estimates(table: &TableResult) -> Vec<Vec<f64>> {
    table.rows.iter().map(|row| row.cells.iter().map(|cell| cell.estimate.unwrap()).collect()).collect()
}

/// TCP at α = 1, 2, 4: 110, 120, 140. SCTP: 201, 202, 204.
#[test]
fn every_derivation() {
    let table = table(
        "rows = ['transport']\n[columns]\n\
         mean = { mean = 'r', over = 'alpha' }\n\
         spread = { spread = 'r', over = ['alpha'] }\n\
         low = { min = 'r', over = ['alpha'] }\n\
         high = { max = 'r', over = ['alpha'] }\n\
         first = { value = 'r', where = { alpha = 1 } }\n\
         gain = { difference = 'r', over = ['alpha'], to = { transport = 'tcp' } }\n\
         ratio = { ratio = 'r', where = { alpha = 4 }, to = { alpha = 1 } }\n",
    );
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let row = |index: usize| -> Vec<f64> {
        ["mean", "spread", "low", "high", "first", "gain", "ratio"]
            .iter()
            .map(|name| estimates(&table)[index][names.iter().position(|n| n == name).unwrap()])
            .collect()
    };
    let close = |row: Vec<f64>, wanted: [f64; 7]| {
        assert!(row.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{row:?} {wanted:?}");
    };
    let (tcp, sctp) = (370.0 / 3.0, 607.0 / 3.0);
    close(row(0), [tcp, 30.0, 110.0, 140.0, 110.0, 0.0, 140.0 / 110.0]);
    close(row(1), [sctp, 3.0, 201.0, 204.0, 201.0, sctp - tcp, 204.0 / 201.0]);
    let unit = |name: &str| &table.columns[names.iter().position(|n| *n == name).unwrap()].unit;
    assert_eq!((unit("spread").as_str(), unit("ratio").as_str()), ("B/s", "1"));
}

/// Four replications of 110 ± 1: sd 2/√3, error 1/√3, t(0.975, 3) = 3.1824.
#[test]
fn intervals_are_over_replications() {
    let table = table("rows = ['transport', 'alpha']\n[columns]\nr = { value = 'r' }\n");
    let cell = &table.rows[0].cells[0];
    assert_eq!(cell.n, 4);
    let half = 3.182_446_3 / 3f64.sqrt();
    assert!(
        (cell.low.unwrap() - (110.0 - half)).abs() < 1e-5
            && (cell.high.unwrap() - (110.0 + half)).abs() < 1e-5
    );
    let keys: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.key.iter().map(ToString::to_string).collect()).collect();
    assert_eq!(keys[1], ["tcp", "2"]);
    assert_eq!(keys.len(), 6);
}

#[test]
fn a_row_of_which_no_column_shows_a_point_is_none() {
    let table = table(
        "rows = ['transport', 'alpha']\n[columns]\nr = { value = 'r', where = { alpha = ['1', '2'] } }\n\
         s = { value = 'r', where = { transport = 'tcp' } }\n",
    );
    let keys: Vec<String> =
        table.rows.iter().map(|row| row.key.iter().map(Level::text).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(keys, ["tcp 1", "tcp 2", "tcp 4", "sctp 1", "sctp 2"]);
}

/// Variation that all points share cancels in a spread. Its interval has width zero, or no ends if the values are
/// random.
#[test]
fn a_spread_has_no_noise_that_all_points_share() {
    let text = "rows = ['transport']\n[columns]\ns = { spread = 'r', over = ['alpha'] }\n";
    let study = Study::new(FACTORS).deterministic().table("t", text).run(4, value);
    let cell = &study.judge().tables[0].rows[0].cells[0];
    assert!((cell.low.unwrap() - 30.0).abs() < 1e-9 && (cell.high.unwrap() - 30.0).abs() < 1e-9);
    let by_chance = &table(text).rows[0].cells[0];
    assert!((by_chance.estimate.unwrap() - 30.0).abs() < 1e-9);
    assert_eq!((by_chance.low, by_chance.high), (None, None));
}

#[test]
fn claims_over_a_column() {
    let spread = "rows = ['transport']\n[columns]\nover_alpha = { spread = 'r', over = ['alpha'] }\n";
    let claim = |expect: &str, margin: &str| {
        let text = format!(
            "response = 'table.spread.over_alpha'\ncompare = {{ transport = ['tcp', 'sctp'] }}\nexpect = '{expect}'\n{margin}"
        );
        let noisy = |place: &StudyPoint<'_>| value(place) + place.own_luck().normal(0.0, 1.0);
        Study::new(FACTORS).table("spread", spread).claim("c", &text).run(10, noisy).verdict()
    };
    let greater = claim("greater", "");
    assert_eq!(greater.verdict, ClaimVerdict::Supported, "{}", greater.why);
    assert!((greater.points[0].estimate - 27.0).abs() < 2.0);
    assert_eq!(claim("less", "").verdict, ClaimVerdict::Refuted);
    assert_eq!(claim("equivalent", "margin = '5 B/s'").verdict, ClaimVerdict::Refuted);
    assert_eq!(claim("greater", "margin = '10 B/s'").verdict, ClaimVerdict::Supported);
}

/// A response divided by itself is 1. `by` requires a response with the same unit.
#[test]
fn a_column_of_one_response_by_another() {
    let text = "rows = ['transport', 'alpha']\n[columns]\nx = { ratio = 'r', by = 'r' }\n";
    let table = Study::new(FACTORS).table("t", text).run(4, value).judge().tables.remove(0);
    assert!(table.rows.iter().all(|row| row.cells[0].estimate == Some(1.0)), "{table:?}");
    assert_eq!(table.columns[0].definition, "mean of r divided by that of r");
    let errors = |text: &str| -> Vec<String> {
        let table: crate::TableSpec = toml::from_str(text).unwrap();
        table.check(&Study::new(FACTORS).design).iter().map(ToString::to_string).collect()
    };
    let unknown = errors("rows = ['transport', 'alpha']\n[columns]\nx = { ratio = 'r', by = 'q' }\n");
    assert!(unknown[0].contains("there is no response `q`"), "{unknown:?}");
    let idle = errors("rows = ['transport', 'alpha']\n[columns]\nx = { value = 'r', by = 'r' }\n");
    assert_eq!(idle, ["`columns.x.by`: means nothing to `value`"]);
}

#[test]
fn a_column_of_ratios_against_a_number() {
    let study = |target: &str| {
        Study::new(FACTORS)
            .table("gain", "rows = ['alpha']\n[columns]\nover_tcp = { ratio = 'r', where = { transport = 'sctp' }, to = { transport = 'tcp' } }")
            .claim("c", &format!("response = 'table.gain.over_tcp'\nexpect = 'greater'\ntarget = {target}"))
            .run(10, value)
            .verdict()
    };
    // The smallest of 201/110, 202/120 and 204/140 is 1.457.
    assert_eq!(study("1.4").verdict, ClaimVerdict::Supported);
    assert_eq!(study("1.5").verdict, ClaimVerdict::Refuted);
}

const PAPER: &str = "title = 'p'\n[[value]]\ngroup = 'table4'\nwhere = { transport = 'tcp' }\nresponse = 'spread'\n\
    value = 0.025\nunit = 'KB/s'\nquote = '25 B'\npage = 80\n";
const BESIDE: &str =
    "rows = ['transport']\npaper = 'table4'\n[columns]\nspread = { spread = 'r', over = ['alpha'] }\n";

#[test]
fn the_papers_values_beside() {
    let table = Study::new(FACTORS).paper(PAPER).table("t", BESIDE).run(4, value).judge().tables.remove(0);
    let beside = table.rows[0].cells[0].paper.clone().unwrap();
    assert_eq!((beside.value, beside.place.as_str()), (25.0, "page 80"));
    assert!((beside.difference.unwrap() - 5.0).abs() < 1e-9);
    assert_eq!(table.rows[1].cells[0].paper, None);
}

/// If some levels of a cell were not run, the cell is not comparable with the paper's value.
#[test]
fn the_papers_values_stand_beside_no_part() {
    let with_omitted = |factor: &str, level: &str| {
        let mut study = Study::new(FACTORS).paper(PAPER).table("t", BESIDE);
        let levels = vec![Level::new(level)];
        study.design.omitted = vec![crate::Factor { name: factor.to_owned(), levels }];
        let omitted = study.design.tables[0].1.without_paper(&study.design);
        let reason: Vec<String> =
            omitted.iter().map(|(factor, levels)| format!("{factor} = {}", levels[0])).collect();
        (study.run(4, value).judge().tables.remove(0).rows[0].cells[0].paper.is_some(), reason)
    };
    assert_eq!(with_omitted("alpha", "8"), (false, vec!["alpha = 8".to_owned()]));
    // Each row has one level of this factor, so the omitted level affects no row.
    assert_eq!(with_omitted("transport", "dccp"), (true, Vec::new()));
}

#[test]
fn a_cell_without_all_its_points_says_why() {
    let text = "rows = ['transport']\n[columns]\ns = { spread = 'r', over = ['alpha'] }\n";
    let study = Study::new(FACTORS).table("t", text).run(4, value).ended("alpha", "4", Status::Failed);
    let cell = &study.judge().tables[0].rows[0].cells[0];
    assert_eq!((cell.estimate, cell.why.as_deref()), (None, Some("alpha cannot be 4")));
}

#[test]
fn faults_of_a_table_are_told_by_field() {
    let design = Study::new(FACTORS).design;
    let errors = |text: &str| -> Vec<String> {
        let table: crate::TableSpec = toml::from_str(text).unwrap();
        table.check(&design).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        errors("rows = ['transport']\n[columns]\nx = { mean = 'r' }\n"),
        ["`columns.x`: factor `alpha` has 3 levels: name it in `rows`, in `over` or in `where`"]
    );
    assert_eq!(
        errors(
            "rows = ['transprot', 'alpha']\n[columns]\nx = { mean = 'r', where = { transport = 'tcp' } }\n"
        ),
        ["`rows`: there is no factor `transprot`; did you mean `transport`?"]
    );
    let two = errors("rows = ['transport', 'alpha']\n[columns]\nx = { mean = 'r', max = 'r' }\n");
    assert_eq!(two, ["`columns.x`: exactly one of value, mean, spread, min, max, difference and ratio"]);
    let ratio = errors("rows = ['transport', 'alpha']\n[columns]\nx = { ratio = 'q' }\n");
    assert!(ratio[0].contains("there is no response `q`") && ratio[1].contains("needs `to`"), "{ratio:?}");
}
