//! netrig-store
