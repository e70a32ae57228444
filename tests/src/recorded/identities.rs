//! The identities of a scenario: tokens that it has signed and client certificates that it has issued; and the servers that it
//! speaks to.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::AuditTape;
use crate::certificates::{Ca, Issued, showing};
use crate::http::{Answer, Body, Client};
use crate::identity_peer::IdentityPeer;
use crate::receiver::Receiver;
use crate::review_hook::ReviewHook;
use crate::server::ADMIN_TOKEN;

/// A certificate that recordings take for granted.
const FRONT_PROXY: &str = "front-proxy";

/// The servers that the steps of a scenario speak to.
#[derive(Clone, Copy)]
pub struct Peers<'p> {
    /// The API server.
    pub client: &'p Client,
    /// The webhook that it asks.
    pub hook: Option<&'p ReviewHook>,
    /// The issuers of tokens that it believes.
    pub issuers: Option<&'p IdentityPeer>,
    /// The CA of its clients.
    pub ca: Option<&'p Ca>,
    /// The receiver of the scenario, if it has one of its own.
    pub receiver: Option<&'p Receiver>,
    /// The audit events of those scenarios that are recorded with theirs.
    pub audit: Option<&'p AuditTape<'p>>,
}

impl<'p> Peers<'p> {
    /// The API server alone.
    pub const fn of(client: &'p Client) -> Self {
        Self {
            client,
            hook: None,
            issuers: None,
            ca: None,
            receiver: None,
            audit: None,
        }
    }
}

/// Those of one scenario.
pub(super) struct Identities<'a> {
    pub(super) peers: Peers<'a>,
    certificates: HashMap<String, Issued>,
}

impl<'a> Identities<'a> {
    pub(super) fn new(peers: Peers<'a>) -> Self {
        let proxy = |ca: &Ca| {
            (
                FRONT_PROXY.to_owned(),
                ca.issue_recorded(&json!({"subject": "/CN=front-proxy"})),
            )
        };
        Self {
            peers,
            certificates: peers.ca.map(proxy).into_iter().collect(),
        }
    }

    /// The answer to a step that is not for the server: a token to be signed, a certificate to be issued, or what the peer is
    /// to answer or was asked.
    pub(super) fn answer(&mut self, step: &Value, body: &Value) -> Option<Answer> {
        let request = step["do"].as_str().unwrap_or_default();
        let reply = match request.split_once(' ')? {
            ("SIGN", key) => json!({"token": self.peers.issuers?.sign(key, body)}),
            ("CERT", name) => {
                let issued = match body["ca"].as_str() {
                    None | Some("ca") => self.peers.ca?.issue_recorded(body),
                    Some(other) => Ca::new(other).issue_recorded(body),
                };
                self.certificates.insert(name.to_owned(), issued);
                json!({"ok": true})
            }
            ("HOOK", request) => self.peers.hook?.step(request, body),
            _ => return None,
        };
        Some(Answer {
            code: 200,
            headers: Vec::new(),
            body: Body::Whole(reply.to_string().into_bytes()),
        })
    }

    /// The client as a step names it: by a token, `none`, or `cert:NAME`, perhaps with a token.
    pub(super) fn client(&self, name: Option<&str>) -> Client {
        let client = self.peers.client;
        match name {
            None => client.with_token(ADMIN_TOKEN),
            Some("none") => client.anonymous(),
            Some(name) => match name.strip_prefix("cert:") {
                None => client.with_token(name),
                Some(shown) => {
                    let (shown, token) = shown.split_once(' ').unwrap_or((shown, ""));
                    let issued = self.certificates.get(shown).expect("the scenario has asked for it");
                    let client = showing(&client.anonymous(), issued);
                    if token.is_empty() {
                        client
                    } else {
                        client.with_token(token)
                    }
                }
            },
        }
    }
}
