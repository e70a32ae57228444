//! The settings of authenticators.

use super::*;

#[test]
fn front_proxies_are_believed_by_cas_of_their_own_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca = dir.path().join("proxies.pem");
    fs::write(&ca, "").expect("written");
    let headers = "--requestheader-username-headers=X-Remote-User,X-Other --requestheader-uid-headers=x-remote-uid \
        --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra-";
    let line = format!("trireme serve {headers} --requestheader-allowed-names=proxy");
    assert_eq!(serve(&line, &[]).request_header, None);
    let read = serve(&format!("{line} --requestheader-client-ca-file={}", ca.display()), &[]).request_header;
    let read = read.expect("there is a CA");
    assert_eq!((read.ca_file, read.allowed_names), (ca, vec!["proxy".to_owned()]));
    assert_eq!(read.headers.username, ["X-Remote-User", "X-Other"]);
    check_errors(
        "trireme serve --requestheader-group-headers=a,,b --requestheader-uid-headers=X-Uid",
        &[],
        expect![[r#"
            2 errors in the settings
              --requestheader-group-headers: "a,,b": give names, separated by commas, none of them empty
              --requestheader-uid-headers: "X-Uid": does not have the standard X-Remote-Uid header: API aggregation will not work"#]],
    );
}
