//! The named tables of a section, and the groups of nodes, links and flows that they define.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::file::diagnostic::Diagnostic;
use crate::file::document::{Entry, Kind, Table, Value};
use crate::file::read::Reader;

/// The most nodes that a scenario may have.
pub(super) const MAX_NODES: u64 = 10_000;
/// The most links that a scenario may have.
pub(super) const MAX_LINKS: u64 = 20_000;
/// The most flows that a scenario may have.
pub(super) const MAX_FLOWS: u64 = 10_000;
/// The most links that all paths of a scenario may have together.
pub(super) const MAX_HOPS: usize = 1_000_000;
/// The most packets that all links of a scenario together list to be dropped by number.
pub(super) const MAX_DROPS: usize = 1_000_000;
/// The most rules, classes and curves that the links of a scenario may have together.
pub(super) const MAX_RULES: usize = 200_000;

/// The named tables of a section, such as `[node.client]` and `[node.server]` of `node`. Other values are skipped,
/// because the check of the file reports them. The iteration ends early if enough faults are found.
pub(crate) fn tables<'v>(
    root: &'v Value,
    section: &str,
    reader: &Reader<'_>,
) -> impl Iterator<Item = &'v Entry> {
    let table = root.table().and_then(|root| root.get(section)).and_then(Value::table);
    let entries = table.into_iter().flat_map(|table| &table.entries);
    entries.filter(|entry| entry.value.table().is_some()).take_while(|_| !reader.has_enough())
}

/// The number of members of a group, and the form of their names.
#[derive(Clone, Copy)]
pub(super) struct GroupSize {
    pub(super) number: usize,
    /// Whether the names of the members end with a number: `client#1`.
    pub(super) numbered: bool,
}

impl GroupSize {
    /// The name of the `i`-th member, from 0.
    pub(super) fn name(self, group: &str, i: usize) -> String {
        if self.numbered { format!("{group}#{}", i + 1) } else { group.to_owned() }
    }
}

/// The index ranges of the members of each group, by name.
pub(super) type Groups = BTreeMap<String, Range<usize>>;

/// The index range of a reference such as `client` or `client#3`.
pub(super) fn members(groups: &Groups, reference: &str) -> Option<Range<usize>> {
    if let Some(group) = groups.get(reference) {
        return Some(group.clone());
    }
    let (group, number) = reference.split_once('#')?;
    let group = groups.get(group)?;
    let place = number.parse::<usize>().ok()?.checked_sub(1)?.checked_add(group.start)?;
    group.contains(&place).then(|| place..place + 1)
}

/// The index of the `i`-th member, or of the only member.
pub(super) fn wired(members: &Range<usize>, i: usize) -> usize {
    if members.len() == 1 { members.start } else { members.start + i }
}

/// The number of links or flows between groups of `ends` members each: `count`, or the size of the larger group. A
/// group of one member is the end of all of them. A larger group must have exactly this number of members.
///
/// # Errors
///
/// A sentence with the numbers that do not fit.
pub(super) fn between(count: Option<u32>, ends: [usize; 2]) -> Result<GroupSize, String> {
    let [a, b] = ends;
    if count == Some(0) {
        return Err("a count of 0 makes none: it must be at least 1".into());
    }
    let number = count.map_or(a.max(b), |count| count as usize);
    if [a, b].iter().any(|end| *end != 1 && *end != number) {
        return Err(match count {
            Some(_) => format!("{number} cannot be wired one by one to ends of {a} and {b} nodes"),
            None => format!("{a} nodes cannot be wired one by one to {b}"),
        });
    }
    Ok(GroupSize { number, numbered: count.is_some() || number > 1 })
}

/// Checks that a name is valid in `of = "flow.name"`, in a path and before a `#`.
pub(crate) fn check_name(entry: &Entry, reader: &Reader<'_>) -> bool {
    let fine = !entry.key.is_empty()
        && entry.key.len() <= 64
        && entry.key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !fine {
        reader.report(
            Diagnostic::error(entry.key_span.clone(), format!("`{}` cannot be a name", entry.key))
                .expected("up to 64 letters, digits, `_` and `-`"),
        );
    }
    fine
}

/// A value with the content `table` and the position of `value`.
pub(super) fn made_of(value: &Value, table: Table) -> Value {
    Value { span: value.span.clone(), kind: Kind::Table(table) }
}
