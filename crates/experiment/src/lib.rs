//! netrig-experiment
