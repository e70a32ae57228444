//! The query and path parameters that operations take.

/// A parameter of an operation or of all operations of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// The OpenAPI type.
    pub(super) ty: &'static str,
    /// True if it is part of the path.
    pub(super) in_path: bool,
    pub(super) description: &'static str,
}

impl Parameter {
    /// The place among the parameters of an operation.
    pub(super) fn place(&self) -> (&'static str, bool) {
        (self.name, !self.in_path)
    }
}

const fn query(name: &'static str, ty: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        ty,
        in_path: false,
        description,
    }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        ty: "string",
        in_path: true,
        description,
    }
}

pub(super) const NAME: Parameter = path("name", "name of the object");
pub(super) const NAMESPACE: Parameter = path(
    "namespace",
    "object name and auth scope, such as for teams and projects",
);
pub(super) const REST: Parameter = path("path", "path to the resource");
pub(super) const PRETTY: Parameter = query("pretty", "string", "If 'true', then the output is pretty printed.");

const DRY_RUN: Parameter = query(
    "dryRun",
    "string",
    "When present, nothing is persisted. The only valid value is All: all stages are processed, as if the request were \
     a real one.",
);
const FIELD_MANAGER: Parameter = query(
    "fieldManager",
    "string",
    "The name of the actor that makes these changes: at most 128 printable characters.",
);
const FIELD_MANAGER_OF_PATCH: Parameter = query(
    "fieldManager",
    "string",
    "The name of the actor that makes these changes: at most 128 printable characters. Required for apply requests.",
);
const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "What to do about unknown and duplicate fields. Ignore drops them silently; Warn drops them and sends a warning \
     for each; Strict fails the request.",
);
const FORCE: Parameter = query(
    "force",
    "boolean",
    "Makes an apply request take over fields that others own. Must be unset for other patches.",
);
const LIMIT: Parameter = query(
    "limit",
    "integer",
    "The greatest number of items to return; the list's metadata.continue then leads to the rest.",
);
const CONTINUE: Parameter = query(
    "continue",
    "string",
    "The metadata.continue of the page before. The other parameters must be as they were then.",
);
const FIELD_SELECTOR: Parameter = query(
    "fieldSelector",
    "string",
    "Restricts the objects by their fields. Everything by default.",
);
const LABEL_SELECTOR: Parameter = query(
    "labelSelector",
    "string",
    "Restricts the objects by their labels. Everything by default.",
);
const RESOURCE_VERSION: Parameter = query(
    "resourceVersion",
    "string",
    "Which resource versions may be served; see https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions.",
);
const RESOURCE_VERSION_MATCH: Parameter = query(
    "resourceVersionMatch",
    "string",
    "How resourceVersion is applied to list calls: Exact or NotOlderThan.",
);
const SEND_INITIAL_EVENTS: Parameter = query(
    "sendInitialEvents",
    "boolean",
    "Begins a watch with synthetic events for the objects that exist, followed by a bookmark.",
);
const SHARD_SELECTOR: Parameter = query(
    "shardSelector",
    "string",
    "Restricts the objects to ranges of the hash of one of their fields. Everything by default.",
);
const TIMEOUT_SECONDS: Parameter = query("timeoutSeconds", "integer", "Bounds the duration of the call.");
const WATCH: Parameter = query(
    "watch",
    "boolean",
    "Watches for changes and returns them as a stream of events.",
);
const BOOKMARKS: Parameter = query(
    "allowWatchBookmarks",
    "boolean",
    "Asks for watch events of type BOOKMARK.",
);
const GRACE: Parameter = query(
    "gracePeriodSeconds",
    "integer",
    "The duration in seconds before the object should be deleted; zero means at once. The kind's default if unset.",
);
const IGNORE_READ_ERROR: Parameter = query(
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Deletes an object that cannot be read from the store, without finalizers or preconditions.",
);
const ORPHAN: Parameter = query(
    "orphanDependents",
    "boolean",
    "Deprecated: use propagationPolicy. Whether dependents are orphaned.",
);
const PROPAGATION: Parameter = query(
    "propagationPolicy",
    "string",
    "Whether and how garbage collection is performed: Orphan, Background or Foreground.",
);

/// Of lists and watches.
pub(super) const LIST: &[Parameter] = &[
    BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT_SECONDS,
    WATCH,
];
/// Of the reads of a custom resource.
pub(super) const CUSTOM_GET: &[Parameter] = &[RESOURCE_VERSION];
/// Of creates and updates.
pub(super) const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
/// Of patches.
pub(super) const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER_OF_PATCH, FIELD_VALIDATION, FORCE];
/// Of deletes.
pub(super) const DELETE: &[Parameter] = &[DRY_RUN, GRACE, IGNORE_READ_ERROR, ORPHAN, PROPAGATION];
/// Of deletes of collections.
pub(super) const DELETE_COLLECTION: &[Parameter] = &[
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE,
    IGNORE_READ_ERROR,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN,
    PROPAGATION,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT_SECONDS,
];

pub(super) const LOG: &[Parameter] = &[
    query(
        "container",
        "string",
        "The container whose log is shown. Defaults to the only container if there is one only in the pod.",
    ),
    query(
        "follow",
        "boolean",
        "Follow the log stream of the pod. Defaults to false.",
    ),
    query(
        "insecureSkipTLSVerifyBackend",
        "boolean",
        "Do not check the serving certificate of the backend, which makes it possible to listen in.",
    ),
    query(
        "limitBytes",
        "integer",
        "The number of bytes after which the output ends.",
    ),
    query(
        "previous",
        "boolean",
        "Return the logs of the terminated container before. Defaults to false.",
    ),
    query("sinceSeconds", "integer", "How far back in time to begin, in seconds."),
    query(
        "stream",
        "string",
        "Which of the container's streams to return: All, Stdout or Stderr.",
    ),
    query(
        "tailLines",
        "integer",
        "The number of lines from the end of the logs to show.",
    ),
    query(
        "timestamps",
        "boolean",
        "Begin each line with its time. Defaults to false.",
    ),
];
const EXEC: &[Parameter] = &[
    query(
        "command",
        "string",
        "The command to execute, with its arguments. Not executed in a shell.",
    ),
    query(
        "container",
        "string",
        "The container to execute the command in. Defaults to the only container if there is one only in the pod.",
    ),
    query(
        "stderr",
        "boolean",
        "Redirect the standard error of the command for this call.",
    ),
    query(
        "stdin",
        "boolean",
        "Redirect the standard input of the command for this call. Defaults to false.",
    ),
    query(
        "stdout",
        "boolean",
        "Redirect the standard output of the command for this call.",
    ),
    query(
        "tty",
        "boolean",
        "Allocate a terminal for the command. Defaults to false.",
    ),
];
const ATTACH: &[Parameter] = &[
    query(
        "container",
        "string",
        "The container to attach to. Defaults to the only container if there is one only in the pod.",
    ),
    query(
        "stderr",
        "boolean",
        "Redirect the standard error of the container. Defaults to true.",
    ),
    query(
        "stdin",
        "boolean",
        "Redirect the standard input of the container. Defaults to false.",
    ),
    query(
        "stdout",
        "boolean",
        "Redirect the standard output of the container. Defaults to true.",
    ),
    query(
        "tty",
        "boolean",
        "Allocate a terminal for the attach call. Defaults to false.",
    ),
];
const PORT_FORWARD: &[Parameter] = &[query(
    "ports",
    "integer",
    "The ports to forward. Required over WebSockets.",
)];
const POD_PROXY: &[Parameter] = &[query(
    "path",
    "string",
    "The URL path to use for the proxied request to the pod.",
)];
const SERVICE_PROXY: &[Parameter] = &[query(
    "path",
    "string",
    "The part of the URL that holds the service's endpoints, path and parameters for the proxied request.",
)];
const NODE_PROXY: &[Parameter] = &[query(
    "path",
    "string",
    "The URL path to use for the proxied request to the node.",
)];

/// Of subresources that connect a client with something else.
pub(super) fn of_connection(kind: &str, subresource: &str) -> &'static [Parameter] {
    match (kind, subresource) {
        (_, "exec") => EXEC,
        (_, "attach") => ATTACH,
        (_, "portforward") => PORT_FORWARD,
        ("Pod", "proxy") => POD_PROXY,
        ("Service", "proxy") => SERVICE_PROXY,
        ("Node", "proxy") => NODE_PROXY,
        _ => &[],
    }
}
