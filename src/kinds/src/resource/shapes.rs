//! Claims as messages show them: Kubernetes' internal structs.

use trireme_machinery::go_text::structs::{PrintedField, PrintedShape};

const SELECTORS: PrintedShape = PrintedShape::List(&[(
    "CEL",
    "cel",
    PrintedShape::Pointer(&[("Expression", "expression", PrintedShape::Text)]),
)]);
const TOLERATIONS: PrintedShape = PrintedShape::List(&[
    ("Key", "key", PrintedShape::Text),
    ("Operator", "operator", PrintedShape::Text),
    ("Value", "value", PrintedShape::Text),
    ("Effect", "effect", PrintedShape::Text),
    ("TolerationSeconds", "tolerationSeconds", PrintedShape::Plain),
]);
const CAPACITY: PrintedShape = PrintedShape::Pointer(&[("Requests", "requests", PrintedShape::Plain)]);
const EXACTLY: PrintedShape = PrintedShape::Pointer(&[
    ("DeviceClassName", "deviceClassName", PrintedShape::Text),
    ("Selectors", "selectors", SELECTORS),
    ("AllocationMode", "allocationMode", PrintedShape::Text),
    ("Count", "count", PrintedShape::Number),
    ("AdminAccess", "adminAccess", PrintedShape::Plain),
    ("Tolerations", "tolerations", TOLERATIONS),
    ("Capacity", "capacity", CAPACITY),
]);
const FIRST_AVAILABLE: PrintedShape = PrintedShape::List(&[
    ("Name", "name", PrintedShape::Text),
    ("DeviceClassName", "deviceClassName", PrintedShape::Text),
    ("Selectors", "selectors", SELECTORS),
    ("AllocationMode", "allocationMode", PrintedShape::Text),
    ("Count", "count", PrintedShape::Number),
    ("Tolerations", "tolerations", TOLERATIONS),
    ("Capacity", "capacity", CAPACITY),
]);
const OPAQUE: PrintedShape = PrintedShape::Pointer(&[
    ("Driver", "driver", PrintedShape::Text),
    ("Parameters", "parameters", PrintedShape::Plain),
]);

/// `resource.ResourceClaimSpec`.
pub(super) const CLAIM_SPEC: &[PrintedField] = &[(
    "Devices",
    "devices",
    PrintedShape::Struct(&[
        (
            "Requests",
            "requests",
            PrintedShape::List(&[
                ("Name", "name", PrintedShape::Text),
                ("Exactly", "exactly", EXACTLY),
                ("FirstAvailable", "firstAvailable", FIRST_AVAILABLE),
            ]),
        ),
        (
            "Constraints",
            "constraints",
            PrintedShape::List(&[
                ("Requests", "requests", PrintedShape::Plain),
                ("MatchAttribute", "matchAttribute", PrintedShape::Plain),
                ("DistinctAttribute", "distinctAttribute", PrintedShape::Plain),
            ]),
        ),
        (
            "Config",
            "config",
            PrintedShape::List(&[
                ("Requests", "requests", PrintedShape::Plain),
                ("Opaque", "opaque", OPAQUE),
            ]),
        ),
    ]),
)];

const REQUIREMENTS: PrintedShape = PrintedShape::List(&[
    ("Key", "key", PrintedShape::Text),
    ("Operator", "operator", PrintedShape::Text),
    ("Values", "values", PrintedShape::Plain),
]);

/// `core.NodeSelectorTerm`s.
pub(super) const NODE_SELECTOR_TERMS: PrintedShape = PrintedShape::List(&[
    ("MatchExpressions", "matchExpressions", REQUIREMENTS),
    ("MatchFields", "matchFields", REQUIREMENTS),
]);

/// `resource.AllocationResult`.
pub(super) const ALLOCATION: &[PrintedField] = &[
    (
        "Devices",
        "devices",
        PrintedShape::Struct(&[
            (
                "Results",
                "results",
                PrintedShape::List(&[
                    ("Request", "request", PrintedShape::Text),
                    ("Driver", "driver", PrintedShape::Text),
                    ("Pool", "pool", PrintedShape::Text),
                    ("Device", "device", PrintedShape::Text),
                    ("AdminAccess", "adminAccess", PrintedShape::Plain),
                    ("Tolerations", "tolerations", TOLERATIONS),
                    ("BindingConditions", "bindingConditions", PrintedShape::Plain),
                    (
                        "BindingFailureConditions",
                        "bindingFailureConditions",
                        PrintedShape::Plain,
                    ),
                    ("ShareID", "shareID", PrintedShape::Plain),
                    ("ConsumedCapacity", "consumedCapacity", PrintedShape::Plain),
                ]),
            ),
            (
                "Config",
                "config",
                PrintedShape::List(&[
                    ("Source", "source", PrintedShape::Text),
                    ("Requests", "requests", PrintedShape::Plain),
                    ("Opaque", "opaque", OPAQUE),
                ]),
            ),
        ]),
    ),
    (
        "NodeSelector",
        "nodeSelector",
        PrintedShape::Pointer(&[("NodeSelectorTerms", "nodeSelectorTerms", NODE_SELECTOR_TERMS)]),
    ),
    ("AllocationTimestamp", "allocationTimestamp", PrintedShape::Plain),
];
