use proptest::prelude::*;

use super::{Format, Quantity};

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn quantities_have_one_canonical_form() {
    for (text, want) in [
        ("0", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("00", "0"),
        ("1000m", "1"),
        ("4000m", "4"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("0.05", "50m"),
        ("1.5", "1500m"),
        ("+5", "5"),
        ("-5", "-5"),
        ("1.", "1"),
        (".5", "500m"),
        ("1024Ki", "1Mi"),
        ("1024Mi", "1Gi"),
        ("8192Mi", "8Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("100Ei", "9223372036854775807"),
        ("1500M", "1500M"),
        ("1000M", "1G"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("100000", "100k"),
        ("12e6", "12e6"),
        ("12E6", "12e6"),
        ("1e3", "1e3"),
        ("1e2", "100"),
        ("1e-3", "1e-3"),
        ("1.2e4", "12e3"),
        ("1E", "1E"),
        ("1000E", "1000E"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("1.1n", "2n"),
        ("-1.1n", "-2n"),
        ("1e-20", "1e-9"),
        ("123456789.123456789", "123456789123456789n"),
        (
            "-1.50000000000000000000000390000000003051e2101",
            "-15000000000000000000000039000000000305100e2061",
        ),
        (
            "-15000000000000000000000039000000000305100e2061",
            "-15000000000000000000000039000000000305100e2061",
        ),
        (
            "100000000000000000000000000000000000000000000000",
            "100000000000000000000000000000E",
        ),
        ("1.000000000000000000000000000000000000000000000000Ki", "1Ki"),
    ] {
        assert_eq!(quantity(text).to_string(), want, "{text}");
    }
}

/// Texts and what a server of Kubernetes 1.36 answers for them.
#[test]
fn fields_keep_what_is_taken_for_canonical() {
    for (text, want) in [
        ("02", "02"),
        ("+5", "+5"),
        ("0100m", "0100m"),
        ("01000m", "1"),
        ("+1Gi", "+1Gi"),
        ("01000Mi", "1000Mi"),
        ("1024Mi", "1Gi"),
        ("9Mi", "9Mi"),
        ("12E6", "12E6"),
        ("1.500", "1.500"),
        ("1.5", "1500m"),
        ("1.000", "1"),
        ("0.500", "500m"),
        ("00", "0"),
        ("1.0Gi", "1Gi"),
        ("1.Gi", "1.Gi"),
        ("1.", "1."),
        ("1000000000000000001", "1000000000000000001"),
    ] {
        assert_eq!(Quantity::kept_text(text).as_deref(), Ok(want), "{text}");
    }
    assert!(Quantity::kept_text("lots").is_err());
}

#[test]
fn errors_read_as_in_kubernetes() {
    let form = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for (text, want) in [
        ("", form),
        ("lots", form),
        ("abc", form),
        ("1 Gi", form),
        ("5x", form),
        ("1.2.3", form),
        ("5mm", "unable to parse quantity's suffix"),
        ("5gi", form),
        ("5ki", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1i", "unable to parse quantity's suffix"),
        (
            "9999999999999999999999999999999999999999",
            "unable to parse numeric part of quantity",
        ),
    ] {
        assert_eq!(Quantity::parse(text).expect_err(text).to_string(), want, "{text}");
    }
}

#[test]
fn quantities_compare_by_value() {
    for (less, more) in [
        ("-1", "0"),
        ("0", "1n"),
        ("999m", "1"),
        ("1k", "1Ki"),
        ("1Gi", "1.1Gi"),
        ("-2", "-1"),
        ("1e100", "1e101"),
        ("99", "1e2000000000"),
        ("-1e30", "-1e29"),
    ] {
        assert!(quantity(less) < quantity(more), "{less} < {more}");
        assert!(quantity(more) > quantity(less), "{more} > {less}");
    }
    assert_eq!(quantity("1024Ki"), quantity("1048576"));
    assert_eq!(quantity("1000m"), quantity("1"));
}

#[test]
fn sums_keep_the_format() {
    for (left, right, sum, difference) in [
        ("1Gi", "1Gi", "2Gi", "0"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1", "500m", "1500m", "500m"),
        ("1Gi", "1", "1073741825", "1073741823"),
        ("1e3", "1", "1001", "999"),
    ] {
        assert_eq!((quantity(left) + quantity(right)).to_string(), sum, "{left} + {right}");
        assert_eq!(
            (quantity(left) - quantity(right)).to_string(),
            difference,
            "{left} - {right}"
        );
    }
}

#[test]
fn values_round_away_from_zero() {
    for (text, value, milli, integer) in [
        ("1500m", 2, 1500, None),
        ("-1500m", -2, -1500, None),
        ("1u", 1, 1, None),
        ("2Ki", 2048, 2_048_000, Some(2048)),
        ("1e300", i64::MAX, i64::MAX, None),
    ] {
        let quantity = quantity(text);
        assert_eq!(
            (quantity.value(), quantity.milli_value(), quantity.as_integer()),
            (value, milli, integer),
            "{text}"
        );
    }
    assert_eq!(quantity("100u").round_up_to_milli().to_string(), "1m");
    assert_eq!(quantity("2500u").round_up_to_milli().to_string(), "3m");
}

proptest! {
    #[test]
    fn the_canonical_form_is_its_own(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]|e-[0-9])?") {
        let parsed = quantity(&text);
        let again = quantity(&parsed.to_string());
        prop_assert_eq!(parsed, again);
        prop_assert_eq!(parsed.to_string(), again.to_string());
    }

    #[test]
    fn integers_survive(value: i64) {
        for format in [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent] {
            let made = Quantity::from_integer(value, format);
            prop_assert_eq!(made.as_integer(), Some(value));
            prop_assert_eq!(quantity(&made.to_string()), made);
        }
    }

    #[test]
    fn sums_are_exact(left in -1_000_000_000_i64..1_000_000_000, right in -1_000_000_000_i64..1_000_000_000) {
        let sum = Quantity::from_milli(left, Format::DecimalSi) + Quantity::from_milli(right, Format::BinarySi);
        prop_assert_eq!(sum.milli_value(), left + right);
        prop_assert_eq!((sum - Quantity::from_milli(right, Format::DecimalSi)).milli_value(), left);
    }
}
