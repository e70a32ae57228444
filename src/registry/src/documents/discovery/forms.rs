//! The forms of discovery documents: `k8s.io/apimachinery/pkg/apis/meta/v1` and `k8s.io/api/apidiscovery/v2`, their fields in
//! the order of upstream.

use serde::Serialize;

#[derive(Serialize)]
pub(super) struct ApiVersions<'d> {
    pub(super) kind: &'static str,
    pub(super) versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    pub(super) server_addresses: [ServerAddress<'d>; 1],
}

#[derive(Serialize)]
pub(super) struct ServerAddress<'d> {
    #[serde(rename = "clientCIDR")]
    pub(super) client_cidr: &'static str,
    #[serde(rename = "serverAddress")]
    pub(super) server_address: &'d str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupList<'d> {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) groups: Vec<ApiGroup<'d>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup<'d> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_version: Option<&'static str>,
    pub(super) name: &'d str,
    pub(super) versions: Vec<GroupVersionForDiscovery<'d>>,
    pub(super) preferred_version: Option<GroupVersionForDiscovery<'d>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupVersionForDiscovery<'d> {
    pub(super) group_version: String,
    pub(super) version: &'d str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList<'d> {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_version: Option<&'static str>,
    pub(super) group_version: String,
    pub(super) resources: Vec<ApiResource<'d>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResource<'d> {
    pub(super) name: String,
    pub(super) singular_name: &'d str,
    pub(super) namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) group: &'d str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) version: &'d str,
    pub(super) kind: &'d str,
    pub(super) verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) short_names: Vec<&'d str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) storage_version_hash: Option<String>,
}

#[derive(Serialize)]
pub(super) struct VersionDiscovery<'d> {
    pub(super) version: &'d str,
    pub(super) resources: Vec<ResourceDiscovery<'d>>,
    pub(super) freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceDiscovery<'d> {
    pub(super) resource: &'d str,
    pub(super) response_kind: ResponseKind<'d>,
    pub(super) scope: &'static str,
    pub(super) singular_resource: &'d str,
    pub(super) verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) short_names: Vec<&'d str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<&'d str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) subresources: Vec<SubresourceDiscovery<'d>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubresourceDiscovery<'d> {
    pub(super) subresource: &'d str,
    pub(super) response_kind: ResponseKind<'d>,
    pub(super) verbs: Vec<&'static str>,
}

#[derive(Serialize)]
pub(super) struct ResponseKind<'d> {
    pub(super) group: &'d str,
    pub(super) version: &'d str,
    pub(super) kind: &'d str,
}
