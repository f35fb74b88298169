//! netrig-sim
