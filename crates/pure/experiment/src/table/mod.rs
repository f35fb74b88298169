//! Derived responses in tables.

mod check;
mod evaluate;
mod ordered;
mod result;
mod spec;

pub use ordered::Ordered;
pub use result::{PaperCell, TableCell, TableColumn, TableResult, TableRow};
pub use spec::{ColumnSpec, Derivation, TableSpec};

#[cfg(test)]
mod tests;
