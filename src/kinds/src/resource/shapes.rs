//! Claims as messages show them: Kubernetes' internal structs.

use crate::internal::{Field, Shape};

const SELECTORS: Shape = Shape::List(&[(
    "CEL",
    "cel",
    Shape::Pointer(&[("Expression", "expression", Shape::Text)]),
)]);
const TOLERATIONS: Shape = Shape::List(&[
    ("Key", "key", Shape::Text),
    ("Operator", "operator", Shape::Text),
    ("Value", "value", Shape::Text),
    ("Effect", "effect", Shape::Text),
    ("TolerationSeconds", "tolerationSeconds", Shape::Plain),
]);
const CAPACITY: Shape = Shape::Pointer(&[("Requests", "requests", Shape::Plain)]);
const EXACTLY: Shape = Shape::Pointer(&[
    ("DeviceClassName", "deviceClassName", Shape::Text),
    ("Selectors", "selectors", SELECTORS),
    ("AllocationMode", "allocationMode", Shape::Text),
    ("Count", "count", Shape::Number),
    ("AdminAccess", "adminAccess", Shape::Plain),
    ("Tolerations", "tolerations", TOLERATIONS),
    ("Capacity", "capacity", CAPACITY),
]);
const FIRST_AVAILABLE: Shape = Shape::List(&[
    ("Name", "name", Shape::Text),
    ("DeviceClassName", "deviceClassName", Shape::Text),
    ("Selectors", "selectors", SELECTORS),
    ("AllocationMode", "allocationMode", Shape::Text),
    ("Count", "count", Shape::Number),
    ("Tolerations", "tolerations", TOLERATIONS),
    ("Capacity", "capacity", CAPACITY),
]);
const OPAQUE: Shape = Shape::Pointer(&[
    ("Driver", "driver", Shape::Text),
    ("Parameters", "parameters", Shape::Plain),
]);

/// `resource.ResourceClaimSpec`.
pub(super) const CLAIM_SPEC: &[Field] = &[(
    "Devices",
    "devices",
    Shape::Struct(&[
        (
            "Requests",
            "requests",
            Shape::List(&[
                ("Name", "name", Shape::Text),
                ("Exactly", "exactly", EXACTLY),
                ("FirstAvailable", "firstAvailable", FIRST_AVAILABLE),
            ]),
        ),
        (
            "Constraints",
            "constraints",
            Shape::List(&[
                ("Requests", "requests", Shape::Plain),
                ("MatchAttribute", "matchAttribute", Shape::Plain),
                ("DistinctAttribute", "distinctAttribute", Shape::Plain),
            ]),
        ),
        (
            "Config",
            "config",
            Shape::List(&[("Requests", "requests", Shape::Plain), ("Opaque", "opaque", OPAQUE)]),
        ),
    ]),
)];

const REQUIREMENTS: Shape = Shape::List(&[
    ("Key", "key", Shape::Text),
    ("Operator", "operator", Shape::Text),
    ("Values", "values", Shape::Plain),
]);

/// `core.NodeSelectorTerm`s.
pub(super) const NODE_SELECTOR_TERMS: Shape = Shape::List(&[
    ("MatchExpressions", "matchExpressions", REQUIREMENTS),
    ("MatchFields", "matchFields", REQUIREMENTS),
]);

/// `resource.AllocationResult`.
pub(super) const ALLOCATION: &[Field] = &[
    (
        "Devices",
        "devices",
        Shape::Struct(&[
            (
                "Results",
                "results",
                Shape::List(&[
                    ("Request", "request", Shape::Text),
                    ("Driver", "driver", Shape::Text),
                    ("Pool", "pool", Shape::Text),
                    ("Device", "device", Shape::Text),
                    ("AdminAccess", "adminAccess", Shape::Plain),
                    ("Tolerations", "tolerations", TOLERATIONS),
                    ("BindingConditions", "bindingConditions", Shape::Plain),
                    ("BindingFailureConditions", "bindingFailureConditions", Shape::Plain),
                    ("ShareID", "shareID", Shape::Plain),
                    ("ConsumedCapacity", "consumedCapacity", Shape::Plain),
                ]),
            ),
            (
                "Config",
                "config",
                Shape::List(&[
                    ("Source", "source", Shape::Text),
                    ("Requests", "requests", Shape::Plain),
                    ("Opaque", "opaque", OPAQUE),
                ]),
            ),
        ]),
    ),
    (
        "NodeSelector",
        "nodeSelector",
        Shape::Pointer(&[("NodeSelectorTerms", "nodeSelectorTerms", NODE_SELECTOR_TERMS)]),
    ),
    ("AllocationTimestamp", "allocationTimestamp", Shape::Plain),
];
