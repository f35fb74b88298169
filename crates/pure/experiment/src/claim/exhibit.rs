//! The subject of a claim in a design: its unit, and the figure or table that shows it.

use super::selection::Selection;
use super::spec::ClaimSpec;
use crate::judge::Design;
use crate::{ColumnSpec, FigureSpec, TableSpec};

/// The part of a report that shows the subject of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhibit<'a> {
    /// The figure of this name.
    Figure(&'a str),
    /// The table of this name.
    Table(&'a str),
}

impl Design {
    /// The figure or table that shows a claim. In this order: the figure that the claim names; the table of its column;
    /// the first figure, or else table, of its response that shows the compared levels separately at points of the
    /// claim; the first figure or table of its response. `None` if there is none.
    pub fn exhibit<'a>(&'a self, claim: &'a ClaimSpec) -> Option<Exhibit<'a>> {
        if let Some(figure) = &claim.figure {
            return Some(Exhibit::Figure(figure));
        }
        if let Some((table, _)) = claim.column() {
            return Some(Exhibit::Table(table));
        }
        let figures = self.figures_of(claim, true).chain(self.tables_of(claim, true));
        let anywhere = self.figures_of(claim, false).chain(self.tables_of(claim, false));
        figures.chain(anywhere).next()
    }

    fn figures_of<'a>(&'a self, claim: &'a ClaimSpec, fitting: bool) -> impl Iterator<Item = Exhibit<'a>> {
        let shows = move |figure: &FigureSpec| {
            let fits = || {
                claim.varied().is_none_or(|factor| figure.distinguishes(factor))
                    && meet(&figure.at, &claim.at)
            };
            !figure.is_of_runs() && figure.y.contains(&claim.response) && (!fitting || fits())
        };
        let figures = self.figures.iter().filter(move |(_, figure)| shows(figure));
        figures.map(|(name, _)| Exhibit::Figure(name))
    }

    fn tables_of<'a>(&'a self, claim: &'a ClaimSpec, fitting: bool) -> impl Iterator<Item = Exhibit<'a>> {
        let column = move |column: &ColumnSpec| {
            let of = column.derivation().is_some_and(|(_, response)| response == claim.response);
            of && (!fitting || meet(&column.at, &claim.at))
        };
        let shows = move |table: &TableSpec| {
            let distinguishes = claim.varied().is_none_or(|factor| table.rows.contains(factor));
            let fits = !fitting || distinguishes && meet(&table.at, &claim.at);
            fits && table.columns.iter().any(|(_, spec)| column(spec))
        };
        self.tables.iter().filter(move |(_, table)| shows(table)).map(|(name, _)| Exhibit::Table(name))
    }
}

impl ClaimSpec {
    /// The unit of the claim's response or column; `1` for an unknown name.
    pub(super) fn unit<'a>(&self, design: &'a Design) -> &'a str {
        let Some((table, column)) = self.column() else { return design.unit_of(&self.response) };
        let column = design.table(table).and_then(|table| table.column(column));
        column.map_or("1", |column| column.unit(design))
    }

    /// The factor whose levels the claim compares.
    fn varied(&self) -> Option<&str> {
        self.compared().map(|(factor, _)| factor).or(self.over.as_deref())
    }
}

/// Whether a point may belong to both selections: no factor is restricted to disjoint sets of levels.
fn meet(one: &Selection, other: &Selection) -> bool {
    one.0.iter().all(|(factor, levels)| {
        let others = other.0.get(factor);
        others.is_none_or(|others| levels.iter().any(|level| others.iter().any(|other| other.means(level))))
    })
}
