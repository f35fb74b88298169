//! netrig-runner
