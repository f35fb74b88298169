//! netrig-link
