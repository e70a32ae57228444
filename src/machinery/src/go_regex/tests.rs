use proptest::prelude::*;

use super::{GoRegex, parser};

fn compile(pattern: &str) -> GoRegex {
    GoRegex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

fn refusal(pattern: &str) -> String {
    match GoRegex::new(pattern) {
        Ok(_) => panic!("{pattern} is accepted"),
        Err(error) => error.to_string(),
    }
}

/// A pattern, what it matches somewhere in, and what it does not.
const MATCHES: &[(&str, &[&str], &[&str])] = &[
    // What the `regex` crate would refuse or read otherwise.
    (
        r"^[\w-.]+@([\w-]+\.)+[\w-]{2,4}$",
        &["a-b.c@d-e.org"],
        &["a@b", "é@d.org"],
    ),
    (r"^[^[\]]+$", &["a-b", "{}"], &["a[", "]"]),
    (r"^{.*}$", &["{}", "{a}"], &["a", "{", ""]),
    (r"^[[]$", &["["], &["]", "[]"]),
    (r"^[]a]+$", &["]a]"], &["["]),
    (r"^[^]a]$", &["b", "["], &["a", "]"]),
    (r"^[a&&b]+$", &["a&b", "&&"], &["c"]),
    (r"^[!--b]$", &["-", "!", "b", "+"], &["a", "."]),
    (r"^[a-c-e]+$", &["a-e", "bc"], &["d"]),
    (r"^[a~~b]+$", &["~a", "b~"], &["c"]),
    (r"^[\d-z]+$", &["1-z"], &["a", "y"]),
    (r"^[+--]+$", &["+,-"], &["."]),
    (r"^[-a]$", &["-", "a"], &["b"]),
    (r"^[a-]$", &["-", "a"], &["b"]),
    (r"^[[a]]$", &["[]", "a]"], &["[", "a", "[a]"]),
    (r"^[[=a=]]$", &["[]", "=]", "a]"], &["a", "="]),
    (r"^[[:a]$", &["[", ":", "a"], &["b"]),
    (r"^[ #]$", &[" ", "#"], &["a"]),
    (r"^a{,2}$", &["a{,2}"], &["", "a", "aa"]),
    (r"^a{$", &["a{"], &["a"]),
    (r"^a*{$", &["{", "aa{"], &["a"]),
    (r"^x{1001$", &["x{1001"], &["x"]),
    (r"^x{02}$", &["x{02}"], &["xx"]),
    (r"^x{2, 3}$", &["x{2, 3}"], &["xx"]),
    (r"^x{2,1$", &["x{2,1"], &["xx"]),
    (r"^${a}\z", &[], &["${a}", "{a}"]),
    (r"^\{\}$", &["{}"], &[""]),
    (r"^<\-\_\%\~\&\#>$", &["<-_%~&#>"], &["<>"]),
    // Classes are of ASCII, literals and the dot are not.
    (r"^\w+$", &["aZ_09"], &["é", "aé", "٣"]),
    (r"^\W$", &["é", "-"], &["a", "_"]),
    (r"^\d+$", &["019"], &["٣", "a"]),
    (r"^\D$", &["٣", "a"], &["1"]),
    (
        r"^\s$",
        &[" ", "\t", "\n", "\u{c}", "\r"],
        &["\u{b}", "\u{a0}", "\u{2003}"],
    ),
    (r"^\S$", &["\u{a0}", "\u{b}", "a"], &[" "]),
    (r"a\b", &["a", "a b", "aé"], &["ab", "a_"]),
    (r"a\B", &["ab", "a1"], &["a", "aé", "a-"]),
    (r"^é.$", &["éé", "é世"], &["é", "éaa", "é\n"]),
    (r"^[à-ü]+$", &["éü"], &["e", "ÿ"]),
    (r"^[[:alpha:]]+$", &["aZ"], &["é", "1"]),
    (r"^[[:^alpha:]1]+$", &["é1-"], &["a"]),
    (r"^[^[:space:][:punct:]]+$", &["aé1"], &[" ", "!", "\u{b}"]),
    (r"^[[:word:]-]+$", &["a_-9"], &["é"]),
    // Classes of Unicode.
    (r"^\pL+$", &["aéж世"], &["1", "-"]),
    (r"^\PL$", &["1"], &["é"]),
    (r"^\p{Greek}+$", &["αβ"], &["a"]),
    (r"^\p{^Greek}$", &["a"], &["α"]),
    (r"^\P{^Greek}$", &["α"], &["a"]),
    (r"^[\p{Lu}\p{greek}_-]+$", &["ÉA_α-"], &["é"]),
    (r"^[^\PL]$", &["é"], &["1"]),
    (
        r"^\p{Uppercase_Letter}\p{upper case-let ter}\p{lu}$",
        &["AÉЖ"],
        &["AaB"],
    ),
    (r"^\p{Any}\p{Assigned}$", &["\na"], &["\n\u{378}"]),
    (r"^\p{Cn}$", &["\u{378}"], &["a"]),
    (r"^\p{ASCII}$", &["a", "\0"], &["é"]),
    (r"^\p{LC}$", &["a", "É"], &["世"]),
    (r"^\p{Canadian_Aboriginal}$", &["\u{1401}"], &["a"]),
    (r"\p{^Any}", &[], &["a", ""]),
    (r"\p{Cs}", &[], &["a"]),
    (r"^\P{Cs}$", &["a"], &[]),
    // Characters by number.
    (r"^\x41\x{42}\x{00043}\103$", &["ABCC"], &["ABC"]),
    (r"^\x{10FFFF}\0\07\141\1411$", &["\u{10ffff}\0\u{7}aa1"], &["a"]),
    (r"^[\012-\234]\141$", &["\na", "za"], &["\ta"]),
    (r"^\a\f\n\r\t\v$", &["\u{7}\u{c}\n\r\t\u{b}"], &["afnrtv"]),
    (r"\x{D800}", &[], &["a", "\u{fffd}", ""]),
    (r"^[\x{D800}-\x{DFFF}]$", &[], &["a", "\u{fffd}"]),
    (r"^[^\x{D800}]$", &["a"], &["ab"]),
    (r"^[\x{D7FF}-\x{DC00}a]$", &["\u{d7ff}", "a"], &["\u{e000}"]),
    (r"^[\x{DC00}-\x{E000}]$", &["\u{e000}"], &["\u{d7ff}"]),
    // Anchors, flags, quotes, groups.
    (r"^a$", &["a"], &["a\n", "\na", "b\na"]),
    (r"(?m)^a$", &["a\n", "b\na\nc"], &["ab"]),
    (r"(?m)\Aa\z", &["a"], &["a\n", "b\na"]),
    (r"(?m:^a$)|b$", &["c\na\nc", "b"], &["b\nc"]),
    (r"(?s)^a.b$", &["a\nb"], &["a\n\nb"]),
    (r"^(?s:.)(?-s).$", &["\na"], &["\n\n"]),
    (r"(?i)^straße$", &["STRAßE", "Straẞe"], &["STRASSE"]),
    (r"(?i)^k[s]$", &["KS", "\u{212a}\u{17f}"], &["k"]),
    (r"(?i)^[a-z]$", &["K", "\u{212a}", "\u{17f}"], &["é"]),
    (r"(?i)^[^[:lower:]]$", &["1"], &["A", "a", "\u{212a}"]),
    (r"(?i)^[[:^lower:]]$", &["1"], &["A", "a", "\u{212a}"]),
    (r"(?i)^\w$", &["a", "\u{212a}"], &["é"]),
    (r"(?i)^\W$", &["é"], &["a", "\u{212a}"]),
    (r"(?i)^\p{Lu}$", &["a", "É"], &["1", "世"]),
    (r"(?i)^\P{Lu}$", &["1"], &["a", "A"]),
    (r"(?i)^\x61\141$", &["AA", "aA"], &["b"]),
    (r"(?i)σ", &["Σ", "ς"], &["s"]),
    (r"^(a(?i)b|c)d$", &["aBd", "Cd"], &["AbD", "abD"]),
    (r"^(?i:a)b(?-i:c)$", &["Abc"], &["ABc"]),
    (r"^(?i)a(?-i)b$", &["Ab"], &["AB"]),
    (r"^(?i-s:A.)$", &["ab"], &["a\n"]),
    (r"^a(?)b$", &["ab"], &["a"]),
    (r"^\Q[a.b]*\E$", &["[a.b]*"], &["a"]),
    (r"^\Qab\E+$", &["abb"], &["abab"]),
    (r"^\Q\\E$", &["\\"], &[""]),
    (r"^\Qa", &["a"], &["b"]),
    (r"^(?P<year>\d{4})-(?<month>\d\d)$", &["2024-01"], &["24-01"]),
    (r"^(?P<n>a)(?P<n>b)$", &["ab"], &["a"]),
    (r"^(|a|bc||)$", &["", "a", "bc"], &["b"]),
    (r"^(?:)()*$", &[""], &["a"]),
    (r"^*a(?:$)*", &["a", "ba"], &["b"]),
    // Repetitions. What sets flags or is empty takes no operand away.
    (r"^a{2}b{1,}c{0,2}d{0}$", &["aab", "aabbcc"], &["ab", "aabd"]),
    (r"^a(?i)*$", &["", "aa"], &["A"]),
    (r"^a*(?:)b$", &["aab"], &["a"]),
    (r"^(?:a{2}(?i){3})$", &["aaaaaa"], &["aaa", "aaaaa"]),
    (r"^a{2}\Q\E{3}$", &["aaaaaa"], &["aaa"]),
    (r"^[a-z]{0,63}(?:\.[a-z]{1,5}){0,100}$", &["ab.c.d"], &["ab..c"]),
];

#[test]
fn patterns_match_as_in_go() {
    for (pattern, matching, others) in MATCHES {
        let regex = compile(pattern);
        for text in *matching {
            assert!(regex.is_match(text), "{pattern} does not match {text:?}");
        }
        for text in *others {
            assert!(!regex.is_match(text), "{pattern} matches {text:?}");
        }
    }
}

#[test]
fn the_leftmost_match_is_found() {
    for (pattern, text, found) in [
        ("a*", "baaab", vec!["", "aaa", ""]),
        ("a*?", "aa", vec!["", "", ""]),
        ("(?U)a+", "aa", vec!["a", "a"]),
        ("(?U)a+?", "aa", vec!["aa"]),
        ("(?U)a{1,2}b?", "aab", vec!["a", "a"]),
        ("a|ab", "abab", vec!["a", "a"]),
        ("a+?b??", "aab", vec!["a", "a"]),
        ("(|a)*", "aa", vec!["", "", ""]),
        ("", "é", vec!["", ""]),
        (r"\B", "éa", vec![""]),
    ] {
        let regex = compile(pattern);
        assert_eq!(regex.find_all(text).collect::<Vec<_>>(), found, "{pattern} in {text}");
        assert_eq!(regex.find(text), found.first().copied(), "{pattern} in {text}");
    }
}

#[test]
fn refusals_are_worded_as_in_go() {
    for (pattern, kind, part) in [
        ("(", "missing closing )", "("),
        ("a(b|c", "missing closing )", "a(b|c"),
        ("(?P<name>a", "missing closing )", "(?P<name>a"),
        (")", "unexpected )", ")"),
        ("(a))b", "unexpected )", "(a))b"),
        ("[a", "missing closing ]", "[a"),
        ("x[a-z)", "missing closing ]", "[a-z)"),
        ("[]", "missing closing ]", "[]"),
        ("[^]", "missing closing ]", "[^]"),
        ("[a-", "missing closing ]", "[a-"),
        ("x[[:alpha:]", "missing closing ]", "[[:alpha:]"),
        ("[b-a]", "invalid character class range", "b-a"),
        ("[a--b]", "invalid character class range", "a--"),
        (r"[\x{62}-a]", "invalid character class range", r"\x{62}-a"),
        ("[[:foo:]]", "invalid character class range", "[:foo:]"),
        (r"\p{Foo}x", "invalid character class range", r"\p{Foo}"),
        (r"[\pQ]", "invalid character class range", r"\pQ"),
        (r"a\p{Greek", "invalid character class range", r"\p{Greek"),
        (r"a\p", "invalid character class range", r"\p"),
        (r"\p{}", "invalid character class range", r"\p{}"),
        // Names that the `regex` crate knows and Go does not.
        (r"\p{Alphabetic}", "invalid character class range", r"\p{Alphabetic}"),
        (r"\p{sc=Greek}", "invalid character class range", r"\p{sc=Greek}"),
        (r"\p{Grek}", "invalid character class range", r"\p{Grek}"),
        (r"\Z", "invalid escape sequence", r"\Z"),
        (r"\C", "invalid escape sequence", r"\C"),
        (r"(a)\1", "invalid escape sequence", r"\1"),
        (r"\8", "invalid escape sequence", r"\8"),
        (r"\é", "invalid escape sequence", r"\é"),
        (r"\u0041", "invalid escape sequence", r"\u"),
        (r"\G", "invalid escape sequence", r"\G"),
        (r"\E", "invalid escape sequence", r"\E"),
        (r"[a-\d]", "invalid escape sequence", r"\d"),
        (r"[\b]", "invalid escape sequence", r"\b"),
        (r"\x", "invalid escape sequence", r"\x"),
        (r"\x4", "invalid escape sequence", r"\x4"),
        (r"\x4g1", "invalid escape sequence", r"\x4g"),
        (r"\x{}1", "invalid escape sequence", r"\x{}"),
        (r"\x{41", "invalid escape sequence", r"\x{41"),
        (r"\x{4g}", "invalid escape sequence", r"\x{4g"),
        (r"\x{110000}", "invalid escape sequence", r"\x{110000"),
        ("a\\", "trailing backslash at end of expression", ""),
        ("[\\", "trailing backslash at end of expression", ""),
        ("a**", "invalid nested repetition operator", "**"),
        ("a+?*?b", "invalid nested repetition operator", "+?*?"),
        ("a{2}{3}", "invalid nested repetition operator", "{2}{3}"),
        ("a++", "invalid nested repetition operator", "++"),
        ("*", "missing argument to repetition operator", "*"),
        ("a|+?b", "missing argument to repetition operator", "+?"),
        ("(?:{2,3})", "missing argument to repetition operator", "{2,3}"),
        ("(?i)*", "missing argument to repetition operator", "*"),
        (r"\Q\E*", "missing argument to repetition operator", "*"),
        ("x{1001}", "invalid repeat count", "{1001}"),
        ("x{1,2000}y", "invalid repeat count", "{1,2000}"),
        ("x{9876543210}", "invalid repeat count", "{9876543210}"),
        ("x{2,1}", "invalid repeat count", "{2,1}"),
        ("x{1,9876543210}", "invalid repeat count", "{1,9876543210}"),
        ("(?:[a-z]{4}){0,251}", "invalid repeat count", "{0,251}"),
        ("(((x{10}){10}){11})", "invalid repeat count", "{11}"),
        ("(?P<x y>a)", "invalid named capture", "(?P<x y>"),
        ("(?P<>a)", "invalid named capture", "(?P<>"),
        ("(?P<é>a)", "invalid named capture", "(?P<é>"),
        ("(?P<name", "invalid named capture", "(?P<name"),
        ("(?<=a)b", "invalid named capture", "(?<=a)b"),
        ("(?<!a)", "invalid named capture", "(?<!a)"),
        ("(?=a)", "invalid or unsupported Perl syntax", "(?="),
        ("(?!a)", "invalid or unsupported Perl syntax", "(?!"),
        ("(?>a)", "invalid or unsupported Perl syntax", "(?>"),
        ("(?P<", "invalid or unsupported Perl syntax", "(?P"),
        ("(?P=n)", "invalid or unsupported Perl syntax", "(?P"),
        ("(?x)a b", "invalid or unsupported Perl syntax", "(?x"),
        ("(?u:a)", "invalid or unsupported Perl syntax", "(?u"),
        ("(?R)a", "invalid or unsupported Perl syntax", "(?R"),
        ("(?i-)a", "invalid or unsupported Perl syntax", "(?i-)"),
        ("(?i--s)a", "invalid or unsupported Perl syntax", "(?i--"),
        ("(?i", "invalid or unsupported Perl syntax", "(?i"),
        ("(?#a)", "invalid or unsupported Perl syntax", "(?#"),
    ] {
        let text = format!("error parsing regexp: {kind}: `{part}`");
        assert_eq!(refusal(pattern), text, "{pattern}");
    }
}

/// `\b{start}`, `\<` and others are operators of the `regex` crate alone.
#[test]
fn operators_of_others_are_plain_text() {
    assert!(compile(r"^a\b{start}$").is_match("a{start}"));
    assert!(compile(r"^\<a\>$").is_match("<a>"));
    assert!(compile(r"^[a&&[b]]$").is_match("&]"));
}

#[test]
fn nesting_is_limited() {
    let groups = |count: usize| "(".repeat(count) + &")".repeat(count);
    let stars = |count: usize| "(?:".repeat(count) + &")*".repeat(count);
    let branches = |count: usize| "(?:a|b(?:c|".repeat(count) + &"))".repeat(count);
    for nested in [groups(999), stars(99), branches(48)] {
        compile(&nested);
    }
    compile(&format!("({})", "|".repeat(12_345)));
    compile(&"(?:a)".repeat(10_000));
    for nested in [groups(1000), groups(100_000), stars(100), stars(1000), branches(51)] {
        let text = format!("error parsing regexp: expression nests too deeply: `{nested}`");
        assert_eq!(refusal(&nested), text);
    }
}

#[test]
fn size_is_limited() {
    for large in [
        format!("({}){{1000}}", "(xx?)".repeat(1000)),
        "(xx?){1000}".repeat(1000),
        r"\pL".repeat(27_000),
    ] {
        let text = format!("error parsing regexp: expression too large: `{large}`");
        assert_eq!(refusal(&large), text);
    }
    for nested in [
        "((((((((((x{2}){2}){2}){2}){2}){2}){2}){2}){2}))",
        "(?:[a-z]{4}){0,250}",
        "(?:x{1000}){1}",
        "(?:x{1000}){0}",
        "(?:x{0}){1000}",
    ] {
        compile(nested);
    }
    assert!(GoRegex::within(r"\pL{200}", 1024).is_err());
}

/// Pieces of which patterns are made, most of them meaningful.
fn pattern() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "é",
        "-",
        "&",
        "~",
        "^",
        "$",
        ".",
        "|",
        "(",
        ")",
        "(",
        ")",
        "[",
        "]",
        "[^",
        "[",
        "]",
        "{",
        "}",
        "{2}",
        "{1,3}",
        "{,2}",
        "{0,}",
        "*",
        "+",
        "?",
        "(?i)",
        "(?s:",
        "(?U-i:",
        "(?m)",
        "(?P<n>",
        "(?<n>",
        "(?",
        "(?:",
        ":",
        "[:alpha:]",
        "[:^digit:]",
        "\\",
        "\\d",
        "\\W",
        "\\s",
        "\\b",
        "\\B",
        "\\A",
        "\\z",
        "\\Z",
        "\\Q",
        "\\E",
        "\\pL",
        "\\p{^Greek}",
        "\\P{Lu}",
        "\\p{Any}",
        "\\x41",
        "\\x{D800}",
        "\\x{10FFFF}",
        "\\123",
        "\\0",
        "\\<",
        "\\-",
        " ",
        "#",
        "\n",
        "0",
        "<",
        ">",
        ",",
        "\u{212a}",
        "&&",
        "--",
        "~~",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn what_is_translated_compiles(pattern in pattern(), text in "[aAé\\-&0\n\\[\\]]{0,6}") {
        if parser::translate(&pattern).is_ok() {
            let regex = GoRegex::new(&pattern).expect("it is well-formed and small");
            regex.find_all(&text).for_each(drop);
        }
    }

    #[test]
    fn any_text_is_translated_or_refused(pattern in "\\PC{0,40}") {
        if parser::translate(&pattern).is_ok() {
            GoRegex::new(&pattern).expect("it is well-formed and small");
        }
    }

    #[test]
    fn a_quoted_text_matches_itself(text in "\\PC{0,20}") {
        prop_assume!(!text.contains("\\E"));
        let quoted = compile(&format!("\\A(?:\\Q{text}\\E)\\z"));
        // A backslash at the end would take that of the end of the quote.
        prop_assume!(!text.ends_with('\\'));
        prop_assert!(quoted.is_match(&text));
    }
}
