//! netrig-traffic
