//! Formats by name, which text can be checked against (`k8s.io/apiserver/pkg/cel/library/format.go`).

use base64::{Engine, engine::general_purpose::STANDARD};
use trireme_machinery::{names, time::Time};

use super::urls::Url;

/// A format.
#[derive(Debug)]
pub struct NamedFormat {
    /// The name by which it is found.
    pub name: &'static str,
    /// The errors of a text.
    pub validate: fn(&str) -> Vec<String>,
    /// The size by which a check is charged for.
    pub max_regex_size: u64,
}

macro_rules! formats {
    ($($name:literal $size:literal $validate:expr;)*) => {
        static FORMATS: &[NamedFormat] = &[$(NamedFormat { name: $name, validate: $validate, max_regex_size: $size }),*];
    };
}

formats! {
    "dns1123Label" 30 names::dns1123_label;
    "dns1123Subdomain" 60 names::dns1123_subdomain;
    "dns1035Label" 30 names::dns1035_label;
    "qualifiedName" 60 names::qualified_name;
    "dns1123LabelPrefix" 30 |text| names::name_is_dns_label(text, true);
    "dns1123SubdomainPrefix" 60 |text| names::name_is_dns_subdomain(text, true);
    "dns1035LabelPrefix" 30 |text| names::name_is_dns1035_label(text, true);
    "labelValue" 40 names::label_value;
    "uri" 1000 |text| Url::parse(text).err().into_iter().collect();
    "uuid" 100 uuid;
    "byte" 10 |text| error_unless(STANDARD.decode(text).is_ok(), "invalid base64");
    "date" 10 |text| error_unless(Time::parse_date(text).is_some(), "invalid date");
    "datetime" 20 |text| error_unless(Time::parse(text).is_ok(), "invalid datetime");
}

/// Finds a format.
pub(crate) fn named(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

fn error_unless(holds: bool, text: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![text.to_owned()] }
}

fn uuid(text: &str) -> Vec<String> {
    let plain = text.replace('-', "");
    let is_uuid = plain.len() == 32
        && plain.bytes().all(|byte| byte.is_ascii_hexdigit())
        && (text.len() == 32
            || text
                .bytes()
                .enumerate()
                .all(|(at, byte)| (byte == b'-') == matches!(at, 8 | 13 | 18 | 23)));
    error_unless(is_uuid, "does not match the UUID format")
}
