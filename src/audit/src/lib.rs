//! Audit: ids of requests; policy and backends are not there yet.
