//! netrig-report
