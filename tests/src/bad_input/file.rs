//! Files of cases: reading them, making requests of them, and writing them back.
//!
//! In the request line, the headers and the body of a section these stand for the case of each line: `$CASE` as it is,
//! `$URL` percent-encoded, `$BASE64` as continue tokens are encoded; `$1`, `$2`, `$3` are its parts between ` ;; `.

use std::{fs, path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    grammar::{Variables, expand},
    judge::{Came, Expected},
};

/// The template of a case whose section names a port of its own.
const HOST: &str = "127.0.0.1";
/// Before an expectation that kube-apiserver was asked for.
const ASKED: &str = "=>";
/// Before an expectation that nothing but this server gave.
const OWN: &str = "~>";
/// Between our answer and another one of kube-apiserver.
const DIFFERS: &str = " <> ";
/// The column of the expectations if the cases are not longer.
const COLUMN: usize = 60;

/// The request that the cases of a section are put into.
#[derive(Debug, Clone, Default)]
struct Section {
    category: String,
    /// Method and target, or `raw`.
    request: String,
    headers: Vec<(String, String)>,
    user: String,
    body: Option<String>,
    cpu_limit: Option<Duration>,
}

/// One request and the answer that it must get.
#[derive(Debug, Clone)]
pub struct Case {
    /// The section of the case.
    pub category: String,
    /// Its place: file and line.
    pub place: String,
    /// The case as written.
    pub text: String,
    /// The method, so that the answer can be read; empty for raw requests.
    pub method: String,
    /// All that is sent.
    pub request: Vec<u8>,
    /// The expected answer; `None` if it is not written yet.
    pub expected: Option<Expected>,
    /// The answer of kube-apiserver.
    pub reference: Reference,
    /// The most time on a core that the server may spend on it.
    pub cpu_limit: Option<Duration>,
    line: usize,
}

/// The answer of kube-apiserver to a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// It was not asked: the expectation is what this server answered and a person found right.
    Unasked,
    /// The expected one.
    Same,
    /// This one; docs/bad-input.md says why ours is another.
    Other(Expected),
}

impl Reference {
    fn of(came: &Came, expected: &Expected) -> Self {
        match expected.error(came) {
            None => Self::Same,
            Some(_) => Self::Other(Expected::of(came, None)),
        }
    }

    /// An expectation as it is written behind a case.
    fn written(&self, expected: &Expected) -> String {
        match self {
            Self::Unasked => format!("{OWN} {expected}"),
            Self::Same => format!("{ASKED} {expected}"),
            Self::Other(theirs) => format!("{ASKED} {expected}{DIFFERS}{theirs}"),
        }
    }
}

/// A file of cases.
#[derive(Debug)]
pub struct CaseFile {
    path: std::path::PathBuf,
    lines: Vec<String>,
    /// Its cases, in order.
    pub cases: Vec<Case>,
}

/// Reads all `*.txt` files of a folder, in the order of their names. `variables` are what `${name}` stands for; `tokens`
/// are those of the users that `as:` names.
///
/// # Errors
/// For the first line that is not understood.
pub fn load_all(folder: &Path, variables: &Variables, tokens: &Variables) -> Result<Vec<CaseFile>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let load = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        CaseFile::parse(path, &text, variables, tokens)
    };
    paths.iter().map(load).collect()
}

impl CaseFile {
    fn parse(path: &Path, text: &str, variables: &Variables, tokens: &Variables) -> Result<Self, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut cases = Vec::new();
        let mut section: Option<Section> = None;
        let mut in_head = false;
        for (index, line) in lines.iter().enumerate() {
            let place = format!("{name}:{}", index + 1);
            if line.starts_with("# ") || line == "#" {
                continue;
            }
            if line.is_empty() {
                in_head = false;
            } else if let Some(head) = section_head(line) {
                section = Some(head);
                in_head = true;
            } else if let Some(section) = &mut section {
                if in_head {
                    section
                        .add(line)
                        .ok_or_else(|| format!("{place}: not understood: {line}"))?;
                } else {
                    let case = section.case(line, index, &place, variables, tokens);
                    cases.push(case.map_err(|why| format!("{place}: {why}"))?);
                }
            } else {
                return Err(format!("{place}: no section has begun"));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            lines,
            cases,
        })
    }

    /// Writes the answers that came to the cases into the file; `came` has one for each case.
    pub fn update(&self, came: &[Came]) -> std::io::Result<()> {
        self.rewrite(came, |case, came| {
            let expected = Expected::of(came, case.expected.as_ref());
            // What kube-apiserver says of another expectation has to be asked again.
            let is_kept = case.expected.as_ref() == Some(&expected);
            let reference = if is_kept { &case.reference } else { &Reference::Unasked };
            reference.written(&expected)
        })
    }

    /// Writes the answers that kube-apiserver gave beside those that are expected of this server; it was not asked where there is
    /// none.
    pub fn update_reference(&self, came: &[Option<Came>]) -> std::io::Result<()> {
        self.rewrite(came, |case, came| {
            let Some(came) = came else {
                let expected = case.expected.as_ref();
                return expected.map_or_else(String::new, |expected| case.reference.written(expected));
            };
            let expected = case.expected.clone().unwrap_or_else(|| Expected::of(came, None));
            Reference::of(came, &expected).written(&expected)
        })
    }

    fn rewrite<T>(&self, came: &[T], line: impl Fn(&Case, &T) -> String) -> std::io::Result<()> {
        let mut lines = self.lines.clone();
        for (case, came) in self.cases.iter().zip(came) {
            let line_of_case = format!("{:<COLUMN$} {}", case.text, line(case, came));
            line_of_case.trim_end().clone_into(&mut lines[case.line]);
        }
        fs::write(&self.path, lines.join("\n") + "\n")
    }
}

/// `[category] METHOD TARGET`. A case that is a list of one word is no section.
fn section_head(line: &str) -> Option<Section> {
    let (category, request) = line.strip_prefix('[')?.split_once("] ")?;
    let is_category = category
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let is_case = [ASKED, OWN].iter().any(|arrow| request.trim_start().starts_with(arrow));
    (is_category && !category.is_empty() && !is_case).then(|| Section {
        category: category.to_owned(),
        request: request.trim().to_owned(),
        user: "admin".to_owned(),
        ..Section::default()
    })
}

impl Section {
    /// Takes a line of the section's head.
    fn add(&mut self, line: &str) -> Option<()> {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        match name {
            "as" => self.user = value.to_owned(),
            "body" => self.body = Some(value.to_owned()),
            "cpu-ms" => self.cpu_limit = Some(Duration::from_millis(value.parse().ok()?)),
            _ => self.headers.push((name.to_owned(), value.to_owned())),
        }
        Some(())
    }

    fn case(
        &self,
        line: &str,
        index: usize,
        place: &str,
        variables: &Variables,
        tokens: &Variables,
    ) -> Result<Case, String> {
        let (text, expected, reference) = parts_of(line)?;
        let holes = Holes {
            whole: expand(text, variables)?,
            parts: text
                .split(" ;; ")
                .map(|part| expand(part.trim(), variables))
                .collect::<Result<_, _>>()?,
        };
        let (method, request) = if self.request == "raw" {
            (String::new(), holes.whole.clone())
        } else {
            self.request(&holes, variables, tokens)?
        };
        Ok(Case {
            category: self.category.clone(),
            place: place.to_owned(),
            text: text.to_owned(),
            method,
            request,
            expected,
            reference,
            cpu_limit: self.cpu_limit,
            line: index,
        })
    }

    /// The method, and all bytes of the request.
    fn request(&self, holes: &Holes, variables: &Variables, tokens: &Variables) -> Result<(String, Vec<u8>), String> {
        let fill = |template: &str| holes.fill(template, variables);
        let line = fill(&self.request)?;
        let method = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        let method = String::from_utf8_lossy(method).into_owned();
        let mut out = line;
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let mut header = |name: &str, value: &[u8]| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        };
        let has = |wanted: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        if !has("Host") {
            header("Host", HOST.as_bytes());
        }
        if !has("Connection") {
            header("Connection", b"close");
        }
        if let Some(token) = tokens.get(&self.user) {
            header("Authorization", format!("Bearer {token}").as_bytes());
        }
        for (name, value) in &self.headers {
            header(&String::from_utf8_lossy(&fill(name)?), &fill(value)?);
        }
        let body = self.body.as_deref().map(fill).transpose()?;
        if let Some(body) = body
            .as_ref()
            .filter(|_| !has("Content-Length") && !has("Transfer-Encoding"))
        {
            header("Content-Length", body.len().to_string().as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend(body.unwrap_or_default());
        Ok((method, out))
    }
}

/// The case of a line, its expectation, and the answer of kube-apiserver.
fn parts_of(line: &str) -> Result<(&str, Option<Expected>, Reference), String> {
    let parse = |text: &str| Expected::parse(text.trim()).ok_or("what is behind the arrow is not understood");
    let Some(at) = line.rfind(ASKED).max(line.rfind(OWN)) else {
        return Ok((line.trim_end(), None, Reference::Unasked));
    };
    let (text, expectation) = (line[..at].trim_end(), &line[at + ASKED.len()..]);
    if line[at..].starts_with(OWN) {
        return Ok((text, Some(parse(expectation)?), Reference::Unasked));
    }
    match expectation.split_once(DIFFERS) {
        Some((ours, theirs)) => Ok((text, Some(parse(ours)?), Reference::Other(parse(theirs)?))),
        None => Ok((text, Some(parse(expectation)?), Reference::Same)),
    }
}

/// The placeholder of the case in a template.
struct Holes {
    whole: Vec<u8>,
    parts: Vec<Vec<u8>>,
}

impl Holes {
    fn fill(&self, template: &str, variables: &Variables) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let mut rest = template;
        while let Some(at) = rest.find('$') {
            let (before, after) = rest.split_at(at);
            out.extend_from_slice(before.as_bytes());
            let (name, value) = self.hole(after)?;
            match value {
                Some(value) => out.extend(value),
                None => {
                    let end = after.find('}').ok_or("a brace is missing")? + 1;
                    out.extend(expand(&after[..end], variables)?);
                    rest = &after[end..];
                    continue;
                }
            }
            rest = &after[name.len()..];
        }
        out.extend_from_slice(rest.as_bytes());
        Ok(out)
    }

    /// The hole that a text begins with, and what it stands for; nothing for `${…}`.
    fn hole(&self, text: &str) -> Result<(&'static str, Option<Vec<u8>>), String> {
        let part = |index: usize| self.parts.get(index).cloned().unwrap_or_default();
        Ok(match text {
            text if text.starts_with("${") => ("${", None),
            text if text.starts_with("$CASE") => ("$CASE", Some(self.whole.clone())),
            text if text.starts_with("$URL") => ("$URL", Some(percent_encoded(&self.whole))),
            text if text.starts_with("$BASE64") => ("$BASE64", Some(URL_SAFE_NO_PAD.encode(&self.whole).into_bytes())),
            text if text.starts_with("$1") => ("$1", Some(part(0))),
            text if text.starts_with("$2") => ("$2", Some(part(1))),
            text if text.starts_with("$3") => ("$3", Some(part(2))),
            other => return Err(format!("no such hole: {other}")),
        })
    }
}

fn percent_encoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CaseFile, String> {
        let tokens = Variables::from([("admin".to_owned(), "t".to_owned())]);
        CaseFile::parse(Path::new("x.txt"), text, &Variables::new(), &tokens)
    }

    #[test]
    fn cases_are_put_into_the_request_of_their_section() {
        let text = "# c\n[a] POST /x?y=$URL\nbody: <$1|$2>\n\na b ;; c => 400 BadRequest\n";
        let file = parse(text).expect("is understood");
        let request = String::from_utf8(file.cases[0].request.clone()).expect("is text");
        assert_eq!(
            request,
            "POST /x?y=a%20b%20%3B%3B%20c HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Authorization: Bearer t\r\nContent-Length: 7\r\n\r\n<a b|c>"
        );
        assert_eq!(
            (file.cases[0].method.as_str(), file.cases[0].place.as_str()),
            ("POST", "x.txt:5")
        );
    }

    #[test]
    fn a_list_of_one_word_is_a_case() {
        let file = parse("[a] POST /x\nbody: $CASE\n\n[null]   => 400 BadRequest\n[1]\n").expect("is understood");
        assert_eq!(file.cases.len(), 2);
    }

    #[test]
    fn kube_apiserver_may_have_answered_too_or_otherwise() {
        let text = "[a] GET /x\ncpu-ms: 25\n\na => 400 BadRequest | no\nb ~> 404 text\n\
                    c => 400 BadRequest <> 500 InternalError | a\n";
        let file = parse(text).expect("is understood");
        let written = file.cases.iter().map(|case| {
            let expected = case.expected.as_ref().expect("it has one");
            case.reference.written(expected)
        });
        let written: Vec<String> = written.collect();
        let expected = [
            "=> 400 BadRequest | no",
            "~> 404 text",
            "=> 400 BadRequest <> 500 InternalError | a",
        ];
        assert_eq!(written, expected);
        assert_eq!(file.cases[1].reference, Reference::Unasked);
        assert_eq!(file.cases[0].cpu_limit, Some(Duration::from_millis(25)));
    }

    #[test]
    fn raw_cases_are_sent_as_they_stand() {
        let file = parse("[a] raw\n\nGET /${\"\\r\\n\"} => closed\n").expect("is understood");
        assert_eq!(file.cases[0].request, b"GET /\r\n");
    }

    #[test]
    fn errors_of_files_name_their_line() {
        for (text, place) in [
            ("GET / => 200 ok", "x.txt:1"),
            ("[a] GET /\nnonsense\n", "x.txt:2"),
            ("[a] GET /\n\nb => nonsense\n", "x.txt:3"),
            ("[a] GET /$OTHER\n\nb => 200 ok\n", "x.txt:3"),
        ] {
            let error = parse(text).expect_err("is not understood");
            assert!(error.starts_with(place), "{error}");
        }
    }
}
