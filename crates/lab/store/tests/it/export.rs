//! Tables that are exported for other programs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use data_encoding::BASE64;
use netrig_experiment::{Level, MeasuredValue, RunOutcome};
use netrig_store::{ReplicationTable, RunEnd, Store};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

use crate::it::common::{entry, outcome, point, responses, store};

/// Two replications with different values and with characters that CSV must quote. The second replication is invalid.
fn filled() -> (tempfile::TempDir, Store, ReplicationTable<'static>) {
    let (folder, mut store, experiment, provenance) = store();
    let mut first = entry(experiment, provenance, "aa");
    first.point = point(&[("label", "a, \"b\""), ("seed", "none")]);
    first.seed = u64::MAX;
    let mut second = entry(experiment, provenance, "bb");
    second.point = point(&[("label", "line\nbreak"), ("seed", "none")]);
    second.replication = 2;
    second.end =
        RunEnd::Finished(RunOutcome { invalid: Some("late by 3 ms, too much".to_owned()), ..outcome() });
    second.responses = responses(&[("throughput", "B/s", MeasuredValue::from(0.1))]);
    store.record(&first).unwrap();
    store.record(&second).unwrap();
    let table = ReplicationTable::of(&store, experiment, |_| true).unwrap();
    (folder, store, table)
}

#[test]
fn csv_is_rfc_4180() {
    let (_folder, store, table) = filled();
    let mut bytes = Vec::new();
    table.write_csv(&store, &mut bytes).unwrap();
    let expected = "substrate,label,factor.seed,replication,seed,valid,why,delay [s],throughput [B/s],build,identity\r\n\
         sim,\"a, \"\"b\"\"\",none,1,18446744073709551615,true,,,54012.25,0.1.0+abc1234,aa\r\n\
         sim,\"line\nbreak\",none,2,1,false,\"late by 3 ms, too much\",,0.1,0.1.0+abc1234,bb\r\n";
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    assert_eq!(table.rows(), 2);
}

#[test]
fn parquet_has_types_nulls_and_units() {
    let (_folder, store, table) = filled();
    let mut bytes = Vec::new();
    table.write_parquet(&store, &mut bytes, &[]).unwrap();
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let names: Vec<_> = rows[0].get_column_iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[7..9], ["delay [s]", "throughput [B/s]"]);
    assert_eq!(rows[0].get_string(1).unwrap(), "a, \"b\"");
    assert_eq!(rows[0].get_long(3).unwrap(), 1);
    assert_eq!(rows[0].get_ulong(4).unwrap(), u64::MAX);
    assert_eq!((rows[0].get_bool(5).unwrap(), rows[1].get_bool(5).unwrap()), (true, false));
    assert!(rows[0].get_string(6).is_err() && rows[0].get_double(7).is_err(), "null is not a value");
    assert_eq!(rows[1].get_double(8).unwrap(), 0.1);
    let about = file.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(about.iter().any(|pair| pair.key == "experiment" && pair.value.as_deref() == Some("link-down")));
}

/// The units of the columns of a Parquet file, by column name, as a program that reads Arrow finds them.
fn units(bytes: Vec<u8>) -> Vec<(String, Option<String>)> {
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let about = file.metadata().file_metadata().key_value_metadata().unwrap();
    let schema = about.iter().find(|pair| pair.key == "ARROW:schema").unwrap();
    let schema = BASE64.decode(schema.value.as_deref().unwrap().as_bytes()).unwrap();
    let (head, message) = schema.split_at(8);
    assert_eq!((&head[..4], number(head, 4)), (&[0xFF; 4][..], message.len()));
    assert!(message.len().is_multiple_of(8));
    let at = |table, slot| slot_of(message, table, slot).unwrap();
    let root = referred(message, 0);
    let fields = at(referred(message, at(root, 2)), 1);
    let field = |field| {
        let pairs = slot_of(message, field, 6).map(|slot| elements(message, slot));
        let pair = pairs.map(|pairs| pairs[0]);
        let key = pair.map(|pair| text(message, at(pair, 0)));
        assert!(key.is_none_or(|key| key == "unit"));
        (text(message, at(field, 0)), pair.map(|pair| text(message, at(pair, 1))))
    };
    elements(message, fields).into_iter().map(field).collect()
}

/// Reads four bytes of a FlatBuffer as a number.
fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize
}

fn referred(bytes: &[u8], at: usize) -> usize {
    at + number(bytes, at)
}

/// The position of a slot in a table; `None` if it is absent.
fn slot_of(bytes: &[u8], table: usize, slot: usize) -> Option<usize> {
    let list = table - number(bytes, table);
    let half = |at: usize| usize::from(u16::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
    let at = list + 4 + 2 * slot;
    (at < list + half(list) && half(at) > 0).then(|| table + half(at))
}

/// The tables of the vector to which a slot refers.
fn elements(bytes: &[u8], slot: usize) -> Vec<usize> {
    let vector = referred(bytes, slot);
    (0..number(bytes, vector)).map(|n| referred(bytes, vector + 4 + 4 * n)).collect()
}

fn text(bytes: &[u8], slot: usize) -> String {
    let text = referred(bytes, slot);
    let (from, to) = (text + 4, text + 4 + number(bytes, text));
    assert_eq!(bytes[to], 0, "it ends with a zero");
    String::from_utf8(bytes[from..to].to_vec()).unwrap()
}

#[test]
fn the_unit_of_a_column_is_metadata_of_its_field_in_parquet() {
    let (_folder, store, table) = filled();
    let mut bytes = Vec::new();
    table.write_parquet(&store, &mut bytes, &[]).unwrap();
    let columns = [
        ("substrate", None),
        ("label", None),
        ("factor.seed", None),
        ("replication", None),
        ("seed", None),
        ("valid", None),
        ("why", None),
        ("delay [s]", Some("s")),
        ("throughput [B/s]", Some("B/s")),
        ("build", None),
        ("identity", None),
    ];
    assert_eq!(units(bytes), columns.map(|(name, unit)| (name.to_owned(), unit.map(str::to_owned))));
}

/// A factor whose levels are amounts is a column of numbers in the unit of the smallest amount. A factor whose levels
/// are words, amounts of several kinds, or amounts with and without units is a column of texts.
#[test]
fn levels_that_are_numbers_stay_numbers() {
    let (_folder, mut store, experiment, provenance) = store();
    for (number, levels) in (1..).zip([
        [
            ("loss", "10"),
            ("down_for", "500 ms"),
            ("share", "5 %"),
            ("queue", "5"),
            ("gap", "1 ms"),
            ("on", "true"),
        ],
        [
            ("loss", "5"),
            ("down_for", "2 s"),
            ("share", "10 %"),
            ("queue", "red"),
            ("gap", "1 KB"),
            ("on", "false"),
        ],
    ]) {
        let mut made = entry(experiment, provenance, &format!("a{number}"));
        made.point = point(&levels);
        made.replication = number;
        store.record(&made).unwrap();
    }
    let table = ReplicationTable::of(&store, experiment, |_| true).unwrap();
    let mut csv = Vec::new();
    table.write_csv(&store, &mut csv).unwrap();
    let text = String::from_utf8(csv).unwrap();
    let mut lines: Vec<&str> = text.lines().map(|line| line.split(",1,").next().unwrap()).collect();
    lines[1..].sort_unstable();
    assert!(lines[0].starts_with("substrate,down_for [ms],gap,loss,on,queue,share [%],"), "{text}");
    assert!(lines[2].starts_with("sim,500,1 ms,10,true,5,5"), "{text}");
    assert!(lines[1].starts_with("sim,2000,1 KB,5,false,red,10"), "{text}");
    let mut bytes = Vec::new();
    table.write_parquet(&store, &mut bytes, &[]).unwrap();
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert!(rows.iter().all(|row| row.get_double(1).is_ok() && row.get_double(3).is_ok()), "{rows:?}");
    let mut bytes = Vec::new();
    table.write_parquet(&store, &mut bytes, &[]).unwrap();
    let of_factors = units(bytes).into_iter().take_while(|(name, _)| name != "replication");
    let of_factors: Vec<_> = of_factors.filter(|(_, unit)| unit.is_some()).collect();
    let expected = [("down_for [ms]", "ms"), ("share [%]", "%")];
    assert_eq!(of_factors, expected.map(|(name, unit)| (name.to_owned(), Some(unit.to_owned()))));
}

/// Numbers in quotes are texts in the experiment file, in the store and in exported tables.
#[test]
fn texts_that_look_like_numbers_stay_texts() {
    let (_folder, mut store, experiment, provenance) = store();
    for (number, text) in (1..).zip(["100", "0200", "true"]) {
        let mut made = entry(experiment, provenance, &format!("a{number}"));
        made.point = [("who".to_owned(), Level::of_text(text))].into_iter().collect();
        made.replication = number;
        store.record(&made).unwrap();
    }
    let kept = store.replications(experiment).unwrap();
    let levels: BTreeSet<&str> = kept.iter().map(|made| made.point.level("who").unwrap().text()).collect();
    assert_eq!(levels, BTreeSet::from(["100", "0200", "true"]));
    let table = ReplicationTable::of(&store, experiment, |_| true).unwrap();
    let mut csv = Vec::new();
    table.write_csv(&store, &mut csv).unwrap();
    let text = String::from_utf8(csv).unwrap();
    let cells: BTreeSet<&str> = text.lines().map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(cells, BTreeSet::from(["who", "100", "0200", "true"]), "{text}");
    let mut bytes = Vec::new();
    table.write_parquet(&store, &mut bytes, &[]).unwrap();
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let cells: BTreeSet<&str> = rows.iter().map(|row| row.get_string(1).unwrap().as_str()).collect();
    assert_eq!(cells, BTreeSet::from(["100", "0200", "true"]));
}

#[test]
fn an_experiment_without_runs_is_a_table_without_rows() {
    let (_folder, store, experiment, _) = store();
    let table = ReplicationTable::of(&store, experiment, |_| true).unwrap();
    let mut csv = Vec::new();
    table.write_csv(&store, &mut csv).unwrap();
    assert_eq!(csv, b"substrate,replication,seed,valid,why,build,identity\r\n");
    let mut bytes = Vec::new();
    table.write_parquet(&store, &mut bytes, &[]).unwrap();
    assert_eq!(
        SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap().metadata().file_metadata().num_rows(),
        0
    );
}
