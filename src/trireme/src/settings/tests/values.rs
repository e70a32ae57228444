//! Values of single settings.

use crate::settings::values;

#[test]
fn durations_and_ranges() {
    let millis = |text: &str| values::duration(text).map(|duration| duration.as_millis());
    for (text, expected) in [
        ("0", Some(0)),
        ("300ms", Some(300)),
        ("1h30m", Some(5_400_000)),
        ("1.5h", Some(5_400_000)),
        (".5s", Some(500)),
        ("+2s", Some(2_000)),
        ("", None),
        ("+", None),
        ("5", None),
        ("-1s", None),
        ("1d", None),
        (".s", None),
        ("1.2.3s", None),
        ("9999999999999h", None),
    ] {
        assert_eq!(millis(text), expected, "{text:?}");
    }
    for bad in [
        "10.0.0.0",
        "10.0.0.0/1",
        "10.0.0.0/30",
        "10.0.0.0/33",
        "fd00::/48",
        "fd00::/126",
        "10.0.0.0/24,10.1.0.0/24",
        "10.0.0.0/24,fd00::/108,fd01::/108",
        "10.0.0.0/24,",
    ] {
        assert!(values::IpRange::parse_list(bad).is_none(), "{bad}");
    }
    for (text, range) in [
        ("10.96.0.1/12", "10.96.0.0/12"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/29", "10.0.0.0/29"),
    ] {
        let ranges = values::IpRange::parse_list(text).expect("as in kube-apiserver");
        assert_eq!(ranges[0].to_string(), range, "{text}");
    }
    let both = values::IpRange::parse_list("fd00::/108, 10.0.0.0/24").expect("one of each family");
    assert_eq!(
        both.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["fd00::/108", "10.0.0.0/24"]
    );
    for bad in ["30000", "2-1", "0-5", "65535+1", "a-b"] {
        assert!(values::port_range(bad).is_none(), "{bad}");
    }
}
