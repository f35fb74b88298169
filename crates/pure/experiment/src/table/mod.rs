//! Derived responses in tables.

mod evaluate;
mod ordered;
mod spec;

pub use evaluate::{PaperCell, TableCell, TableColumn, TableResult, TableRow};
pub use ordered::Ordered;
pub use spec::{ColumnSpec, Derivation, TableSpec};

#[cfg(test)]
mod tests;
