//! The names that may stand in `\p{…}`.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{RegexError, RegexErrorKind, before};

/// Every character.
pub(super) const ANY: &str = r"[\x00-\x{10FFFF}]";
/// No character.
pub(super) const NOTHING: &str = r"[^\x00-\x{10FFFF}]";

/// The general categories: their short names, then their long ones.
const CATEGORIES: &str = "\
    c other|cc control cntrl|cf format|cn unassigned|co privateuse|cs surrogate|\
    l letter|lc casedletter|ll lowercaseletter|lm modifierletter|lo otherletter|lt titlecaseletter|lu uppercaseletter|\
    m mark combiningmark|mc spacingmark|me enclosingmark|mn nonspacingmark|\
    n number|nd decimalnumber digit|nl letternumber|no othernumber|\
    p punctuation punct|pc connectorpunctuation|pd dashpunctuation|pe closepunctuation|pf finalpunctuation|\
    pi initialpunctuation|po otherpunctuation|ps openpunctuation|\
    s symbol|sc currencysymbol|sk modifiersymbol|sm mathsymbol|so othersymbol|\
    z separator|zl lineseparator|zp paragraphseparator|zs spaceseparator";

/// The scripts of Unicode 15, which are those of Go 1.26. The `regex` crate knows newer ones too.
const SCRIPTS: &str = "\
    adlam ahom anatolianhieroglyphs arabic armenian avestan balinese bamum bassavah batak bengali \
    bhaiksuki bopomofo brahmi braille buginese buhid canadianaboriginal carian caucasianalbanian chakma \
    cham cherokee chorasmian common coptic cuneiform cypriot cyprominoan cyrillic deseret devanagari \
    divesakuru dogra duployan egyptianhieroglyphs elbasan elymaic ethiopic georgian glagolitic gothic \
    grantha greek gujarati gunjalagondi gurmukhi han hangul hanifirohingya hanunoo hatran hebrew \
    hiragana imperialaramaic inherited inscriptionalpahlavi inscriptionalparthian javanese kaithi \
    kannada katakana kawi kayahli kharoshthi khitansmallscript khmer khojki khudawadi lao latin lepcha \
    limbu lineara linearb lisu lycian lydian mahajani makasar malayalam mandaic manichaean marchen \
    masaramgondi medefaidrin meeteimayek mendekikakui meroiticcursive meroitichieroglyphs miao modi \
    mongolian mro multani myanmar nabataean nagmundari nandinagari newa newtailue nko nushu \
    nyiakengpuachuehmong ogham olchiki oldhungarian olditalic oldnortharabian oldpermic oldpersian \
    oldsogdian oldsoutharabian oldturkic olduyghur oriya osage osmanya pahawhhmong palmyrene paucinhau \
    phagspa phoenician psalterpahlavi rejang runic samaritan saurashtra sharada shavian siddham \
    signwriting sinhala sogdian sorasompeng soyombo sundanese sylotinagri syriac tagalog tagbanwa taile \
    taitham taiviet takri tamil tangsa tangut telugu thaana thai tibetan tifinagh tirhuta toto ugaritic \
    vai vithkuqi wancho warangciti yezidi yi zanabazarsquare";

/// The class of a name, as the `regex` crate writes it; none if Go has no such name. Capitals do not count, nor do spaces,
/// hyphens and underscores.
fn class(name: &str, is_negated: bool) -> Option<String> {
    let separators = [' ', '-', '_'];
    let name: String = name.chars().filter(|c| !separators.contains(c)).collect();
    let name = name.to_ascii_lowercase();
    let either = |positive: &str, negative: &str| Some((if is_negated { negative } else { positive }).to_owned());
    match name.as_str() {
        "any" => return either(ANY, NOTHING),
        "ascii" => return either(r"[\x00-\x7F]", r"[^\x00-\x7F]"),
        "assigned" => return either(r"\P{gc=Cn}", r"\p{gc=Cn}"),
        // No text of this server has one: it would not be UTF-8.
        "cs" | "surrogate" => return either(NOTHING, ANY),
        _ => {}
    }
    let escape = if is_negated { 'P' } else { 'p' };
    let has_name = |names: &&str| names.split(' ').any(|known| known == name);
    if let Some(names) = CATEGORIES.split('|').find(has_name) {
        let short = names.split(' ').next()?;
        return Some(format!(r"\{escape}{{gc={short}}}"));
    }
    let is_script = SCRIPTS.split(' ').any(|known| known == name);
    is_script.then(|| format!(r"\{escape}{{sc={name}}}"))
}

/// Reads `\pN` or `\p{Name}` and returns the class as the `regex` crate writes it, and what follows; `None` if something else is
/// there.
pub(super) fn class_escape(text: &str) -> Result<Option<(String, &str)>, RegexError> {
    let (rest, is_negated) = match (text.strip_prefix(r"\p"), text.strip_prefix(r"\P")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        _ => return Ok(None),
    };
    let error = |part| RegexError::new(RegexErrorKind::ClassRange, part);
    let (name, after) = match rest.strip_prefix('{') {
        Some(braced) => braced.split_once('}').ok_or_else(|| error(text))?,
        None => rest.split_at(rest.chars().next().map_or(0, char::len_utf8)),
    };
    let (name, is_negated) = match name.strip_prefix('^') {
        Some(name) => (name, !is_negated),
        None => (name, is_negated),
    };
    let class = class(name, is_negated).ok_or_else(|| error(before(text, after)))?;
    Ok(Some((class, after)))
}
