//! Tests of the names that are refused, case by case.

use super::*;

/// `check name` per line, then `|` and a part of each expected error, joined by `|`; none for good names.
fn run(cases: &str, check: fn(&str, &str) -> Vec<String>) {
    for line in cases.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut parts = line.split(" | ");
        let (name, value) = parts
            .next()
            .unwrap_or_default()
            .split_once(' ')
            .expect("a check and a value");
        let value = value
            .trim_matches('"')
            .replace("{64}", &"x".repeat(64))
            .replace("{254}", &"x".repeat(254));
        let expected: Vec<&str> = parts.collect();
        let errors = check(name, &value);
        let fits = errors.len() == expected.len() && errors.iter().zip(&expected).all(|(f, e)| f.contains(e));
        assert!(fits, "{line}\n{errors:#?}");
    }
}

fn check(name: &str, value: &str) -> Vec<String> {
    match name {
        "label" => dns1123_label(value),
        "subdomain" => dns1123_subdomain(value),
        "underscore" => dns1123_subdomain_with_underscore(value),
        "1035" => dns1035_label(value),
        "wildcard" => wildcard_dns1123_subdomain(value),
        "fqdn" => fully_qualified_domain_name(value),
        "key" => qualified_name(value),
        "domainkey" => domain_prefixed_key(value),
        "domainpath" => domain_prefixed_path(value),
        "value" => label_value(value),
        "config" => config_map_key(value),
        "env" => env_var_name(value),
        "shellenv" => strict_env_var_name(value),
        "c" => c_identifier(value),
        "reason" => condition_reason(value),
        "header" => http_header_name(value),
        "percent" => percent(value),
        "port" => port_name(value),
        "ip" => ip(value),
        "newip" => canonical_ip(value),
        "cidr" => cidr(value),
        "newcidr" => canonical_cidr(value),
        "segment" => path_segment_name(value),
        "generated" => name_is_dns_subdomain(value, true),
        other => panic!("no check {other}"),
    }
}

#[test]
fn names_and_their_errors() {
    run(
        r#"
        label a-1
        label a.b | must not contain dots
        label {64} | must be no more than 63 characters
        label A | a lowercase RFC 1123 label must consist of
        label - | (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        subdomain a.b-c.1
        subdomain a..b | a lowercase RFC 1123 subdomain
        subdomain {254} | must be no more than 253 characters
        underscore _tcp.example_1.com
        underscore __a | '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(
        1035 a1
        1035 1a | a DNS-1035 label must consist of
        wildcard *.example.com
        wildcard a.example.com | a wildcard DNS-1123 subdomain must start with '*.'
        fqdn a.b.
        fqdn a | at least two segments
        key a
        key example.com/a_b.C
        key "" | name part must be non-empty | name part must consist of alphanumeric
        key /a | prefix part must be non-empty
        key a/ | name part must be non-empty | name part must consist of
        key a/b/c | with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
        key A.b/c | prefix part a lowercase RFC 1123 subdomain
        key {64} | name part must be no more than 63 bytes
        key {254}/x | prefix part must be no more than 253 bytes
        domainkey a | must be a domain-prefixed key (such as "acme.io/foo")
        domainkey acme.io/a
        domainpath acme.io/a/b
        domainpath acme.io/ | must be a domain-prefixed path (such as "acme.io/foo")
        domainpath acme.io/a b | Invalid path (regex used for validation is '
        value ""
        value a_b.C
        value {64} | must be no more than 63 bytes
        value -x | a valid label must be an empty string or consist of
        config a.b_c-D
        config a/b | a valid config key must consist of
        config .. | must not be '..'
        config ..a | must not start with '..'
        env a b
        env a=b | printable ASCII characters other than '='
        shellenv 1a | must not start with a digit
        c _a1
        c 1a | a valid C identifier
        reason ReasonA:B
        reason 1 | a condition reason must start with
        header X-A
        header a_b | a valid HTTP header
        percent 50%
        percent 50 | a valid percent string
        port http-1
        port a--b | must not contain consecutive hyphens
        port -1 | must contain at least one letter (a-z) | must not begin or end with a hyphen
        port toolongportname-here | must be no more than 15 characters
        port Aa | must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
        segment a%b/c | may not contain '/' | may not contain '%'
        segment .. | may not be '..'
        generated abc-
        generated - | a lowercase RFC 1123 subdomain
        generated a_b- | a lowercase RFC 1123 subdomain
        "#,
        check,
    );
}

#[test]
fn addresses_and_their_errors() {
    run(
        r#"
        ip 10.9.8.7
        ip 2001:DB8::0
        ip 010.0.0.1 | must not have leading 0s
        ip 1.2.3 | must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        ip 1.2.3.256 | must be a valid IP address
        ip fe80::1%eth0 | must be a valid IP address
        ip "" | must be a valid IP address
        ip ::ffff:1.2.3.4 | must not be an IPv4-mapped IPv6 address
        ip 00001::1 | must not have leading 0s
        newip 2001:DB8::0 | must be in canonical form ("2001:db8::")
        newip 192.0.2.034 | must not have leading 0s
        cidr 10.0.0.0/8
        cidr FD00::/112
        cidr 10.0.0.1 | must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
        cidr 10.0.0.0/33 | must be a valid CIDR value
        cidr 10.0.0.1/8 | must not have bits set beyond the prefix length
        cidr 010.0.0.0/8 | must not have leading 0s in IP or prefix length
        cidr 10.0.0.0/08 | must not have leading 0s in IP or prefix length
        cidr 0.0.0.0/0
        newcidr FD00::/112 | must be in canonical form ("fd00::/112")
        "#,
        check,
    );
}

#[test]
fn numbers_in_their_ranges() {
    assert!(port_number(65535).is_empty());
    assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
    assert_eq!(user_or_group_id(-1), ["must be between 0 and 2147483647, inclusive"]);
}
