//! Tables of `Accept` headers, and what a client gets for them.

use super::*;

const BUILT_IN: OfferedForms = OfferedForms {
    tables: true,
    protobuf: true,
};
const CUSTOM: OfferedForms = OfferedForms {
    tables: true,
    protobuf: false,
};
const WITHOUT_COLUMNS: OfferedForms = OfferedForms {
    tables: false,
    protobuf: true,
};

fn check(header: &str, expected: &str) {
    check_of(BUILT_IN, header, expected);
}

fn check_of(offered: OfferedForms, header: &str, expected: &str) {
    let text = match negotiate_view(Some(header), Produces::Documents, offered) {
        Ok(accept) => format!("{:?} {:?}", accept.format, accept.view),
        Err(error) if error.details.is_some() => "406 type".to_owned(),
        Err(_) => "406 transformation".to_owned(),
    };
    assert_eq!(text, expected, "{header}");
}

#[test]
fn formats() {
    check("", "Json Whole");
    check("application/json", "Json Whole");
    check("application/yaml", "Yaml Whole");
    check("*/*", "Json Whole");
    check("application/vnd.kubernetes.protobuf", "Protobuf Whole");
    check("application/vnd.kubernetes.protobuf,application/json", "Protobuf Whole");
    check("application/vnd.kubernetes.protobuf, */*", "Protobuf Whole");
    check("application/json,application/vnd.kubernetes.protobuf", "Json Whole");
    check(
        "application/json;q=0.9,application/vnd.kubernetes.protobuf",
        "Protobuf Whole",
    );
    check("application/vnd.kubernetes.protobuf;q=0.1,*/*;q=0.2", "Json Whole");
    check("application/vnd.kubernetes.protobuf;stream=watch", "Protobuf Whole");
    check("application/json;q=0.5, application/yaml", "Yaml Whole");
    check("*/*, application/yaml", "Yaml Whole");
    check("application/json; charset=utf-8", "Json Whole");
    check("application/json;stream=watch", "Json Whole");
    check("image/png, application/yaml;q=0.1", "Yaml Whole");
}

#[test]
fn views() {
    check(
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "Json Table(V1)",
    );
    check(
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "Json Table(V1Beta1)",
    );
    check(
        "application/yaml;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "Yaml Metadata(V1)",
    );
    check(
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "Json MetadataList(V1)",
    );
    check(
        "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
        "Json Whole",
    );
    check(
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        "Protobuf Metadata(V1)",
    );
    check(
        "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/vnd.kubernetes.protobuf",
        "Protobuf Whole",
    );
    check(
        "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1",
        "Json Table(V1)",
    );
}

#[test]
fn what_has_no_columns_is_no_table() {
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    check_of(WITHOUT_COLUMNS, table, "406 transformation");
    check_of(WITHOUT_COLUMNS, &format!("{table},application/json"), "Json Whole");
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    check_of(WITHOUT_COLUMNS, metadata, "Json Metadata(V1)");
}

#[test]
fn of_custom_resources_protobuf_has_the_metadata_alone() {
    let protobuf = "application/vnd.kubernetes.protobuf";
    check_of(CUSTOM, protobuf, "406 transformation");
    check_of(CUSTOM, &format!("{protobuf},application/json"), "Json Whole");
    let metadata = format!("{protobuf};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,{protobuf}");
    check_of(CUSTOM, &metadata, "Protobuf MetadataList(V1)");
}

#[test]
fn errors_have_no_other_forms() {
    let format = |header| negotiate_format(Some(header));
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    assert_eq!(
        format("application/vnd.kubernetes.protobuf"),
        Some(ResponseFormat::Protobuf)
    );
    assert_eq!(format(metadata), None);
    assert_eq!(
        format(&format!("{metadata},application/yaml")),
        Some(ResponseFormat::Yaml)
    );
    assert_eq!(negotiate_format(None), Some(ResponseFormat::Json));
}

#[test]
fn refusals() {
    check("text/html", "406 type");
    check("text/*", "406 type");
    check("application/*", "406 type");
    check("*", "406 type");
    check("garbage", "406 type");
    check("image/png, text/plain", "406 type");
    check("application/apply-patch+yaml", "406 type");
    check("application/json;as=Nope;g=x;v=v1", "406 transformation");
    check("application/json;as=Table;g=meta.k8s.io;v=v2", "406 transformation");
    check("application/json;as=Table;v=v1;g=nope", "406 transformation");
    check(
        "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
        "406 transformation",
    );
    check("application/json;v=v1", "406 transformation");
    check("application/yaml;stream=watch", "406 transformation");
    check("application/json;stream=other", "406 transformation");
}

#[test]
fn each_path_names_what_it_can_be_answered_as() {
    let available = |produces: Produces| {
        let refused = produces.admit(Some("text/html")).expect_err("it is refused").message;
        let (_, available) = refused.split_once(": ").expect("it has a colon");
        available.split_once(": ").expect("it has two").1.to_owned()
    };
    assert_eq!(available(Produces::Json), "application/json");
    assert_eq!(available(Produces::Documents), MEDIA_TYPES);
    assert_eq!(
        available(Produces::Lists),
        format!("{MEDIA_TYPES}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch")
    );
    assert!(Produces::Json.admit(Some("application/yaml")).is_err());
    assert!(Produces::Json.admit(Some("text/html, */*;q=0.1")).is_ok());
}

#[test]
fn the_texts_of_refusals() {
    let text = |header| {
        let refused = negotiate_view(Some(header), Produces::Documents, BUILT_IN);
        refused.err().map(|error| error.message)
    };
    assert_eq!(
        text("text/html").as_deref(),
        Some(
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
        )
    );
    assert_eq!(
        text("application/json;as=No").as_deref(),
        Some(
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
        )
    );
}

#[test]
fn parameters_are_read_as_by_goautoneg() {
    // A value that is missing, or has an equals sign in it, is none.
    check("application/json;g=", "Json Whole");
    check("application/json;as=;g=;v=", "Json Whole");
    check("application/json;as=Table=x;v=v1=", "406 transformation");
    check("application/json;as=Table==", "Json Whole");
    check("application/json;as=Table;v=v1=;g=meta.k8s.io", "Json Table(V1)");
    check("application/json;as=\"Table\";v=v1;g=meta.k8s.io", "406 transformation");
    check("application/json; as = Table ; v=v1; g= meta.k8s.io", "Json Table(V1)");
    // A quality that is no number is none.
    check("application/json;q=high, application/yaml;q=0.1", "Yaml Whole");
    check("application/json; q= 0.9, application/yaml;q=0.1", "Yaml Whole");
    check("application/json;q=.2, application/yaml;q=1e-1", "Json Whole");
    // The machinery's own types have one version.
    check("application/json;sv=v1", "Json Whole");
    check("application/json;sv=v2", "406 transformation");
    check("application/json;sv=v2, application/yaml", "Yaml Whole");
    check("application/json;sv=", "Json Whole");
}

#[test]
fn clauses_go_before_others_as_in_goautoneg() {
    // What is named goes before what is not, even if the client likes it less, if it comes later.
    check("*/*;q=0.9, application/yaml;q=0.1", "Yaml Whole");
    check("application/yaml;q=0.1, */*;q=0.9", "Json Whole");
    check("application/yaml;q=0.5, application/json;q=0.9, */*", "Json Whole");
    let many = "application/json;q=0.5, ".repeat(12) + "*/*;q=0.9, application/yaml;q=0.6";
    check(&many, "Json Whole");
    let preferred = |header| preferred_types(header).collect::<Vec<_>>();
    assert_eq!(
        preferred("a/b/c, text, */, a/b/;q=0.2, c/d"),
        [("c", "d"), ("a", "b"), ("*", "*")]
    );
}
