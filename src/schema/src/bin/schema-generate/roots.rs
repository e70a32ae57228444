//! The types that requests and responses name; all others are reachable from these.

use schemars::SchemaGenerator;

macro_rules! describe {
    ($generator:ident: $($($part:ident)::+ { $($name:ident),+ $(,)? })+) => {
        $({
            use $($part)::+ as group;
            $($generator.subschema_for::<group::$name>();)+
        })+
    };
}

/// Puts the types of every served resource and of the API machinery into `generator`.
pub(crate) fn describe_all(generator: &mut SchemaGenerator) {
    describe_core(generator);
    describe_groups(generator);
    describe_machinery(generator);
}

fn describe_core(generator: &mut SchemaGenerator) {
    describe! { generator:
        k8s_openapi::api::core::v1 {
            Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume,
            PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service,
            ServiceAccount,
        }
    }
}

fn describe_groups(generator: &mut SchemaGenerator) {
    describe! { generator:
        k8s_openapi::api::admissionregistration::v1 {
            MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
            ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
        }
        k8s_openapi::api::apps::v1 { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet }
        k8s_openapi::api::authentication::v1 { SelfSubjectReview, TokenRequest, TokenReview }
        k8s_openapi::api::authorization::v1 {
            LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
        }
        k8s_openapi::api::autoscaling::v1 { HorizontalPodAutoscaler, Scale }
        k8s_openapi::api::autoscaling::v2 { HorizontalPodAutoscaler }
        k8s_openapi::api::batch::v1 { CronJob, Job }
        k8s_openapi::api::certificates::v1 { CertificateSigningRequest }
        k8s_openapi::api::coordination::v1 { Lease }
        k8s_openapi::api::discovery::v1 { EndpointSlice }
        k8s_openapi::api::events::v1 { Event }
        k8s_openapi::api::flowcontrol::v1 { FlowSchema, PriorityLevelConfiguration }
        k8s_openapi::api::networking::v1 { IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR }
        k8s_openapi::api::node::v1 { RuntimeClass }
        k8s_openapi::api::policy::v1 { Eviction, PodDisruptionBudget }
        k8s_openapi::api::rbac::v1 { ClusterRole, ClusterRoleBinding, Role, RoleBinding }
        k8s_openapi::api::resource::v1 { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice }
        k8s_openapi::api::scheduling::v1 { PriorityClass }
        k8s_openapi::api::storage::v1 {
            CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
        }
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 { CustomResourceDefinition }
        k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 { APIService }
    }
}

fn describe_machinery(generator: &mut SchemaGenerator) {
    describe! { generator:
        k8s_openapi::apimachinery::pkg::apis::meta::v1 {
            APIGroup, APIGroupList, APIResourceList, APIVersions, DeleteOptions, ListMeta, Patch, Status,
        }
        k8s_openapi::apimachinery::pkg::version { Info }
    }
}
