//! Features that are off.

use super::*;

fn services_without(features: &[Feature]) -> Services {
    Services {
        features: Features::without(features),
        ..services()
    }
}

#[test]
fn names_begin_with_a_digit_where_they_may() {
    let name_errors = |services: Services| services.name_check()("1a", false);
    assert_eq!(name_errors(services()), Vec::<String>::new());
    let strict = services_without(&[Feature::RelaxedServiceNameValidation]);
    assert_eq!(name_errors(strict), names::dns1035_label("1a"));
}

#[test]
fn addresses_in_odd_forms_may_stay_or_be_written_where_the_rules_are_not_strict() {
    let spec = json!({
        "type": "LoadBalancer", "ports": [{"port": 80}], "clusterIP": "10.96.00.9", "externalIPs": ["192.0.2.01"],
        "loadBalancerSourceRanges": [" 10.0.0.1/8 "],
    });
    let (mut object, errors) = create(spec.clone());
    assert_eq!(
        errors,
        ["spec.clusterIPs[0]: Invalid value: \"10.96.00.9\": must not have leading 0s"]
    );
    let lenient = services_without(&[Feature::StrictIpCidrValidation]);
    lenient.prepare_for_create(&context(), &mut object);
    assert!(lenient.validate(&context(), &object).is_empty());
    let (_, errors) = update(&object, spec);
    assert_eq!(errors, Vec::<String>::new(), "they may stay");
    let ingress = json!({"loadBalancer": {"ingress": [{"ip": "::ffff:192.0.2.1", "ipMode": "VIP"}]}});
    let mut written = object.clone();
    written["status"] = ingress;
    assert_eq!(
        services().validate_status_update(&context(), &written, &object).len(),
        1
    );
    assert!(lenient.validate_status_update(&context(), &written, &object).is_empty());
    assert!(
        services()
            .validate_status_update(&context(), &written, &written)
            .is_empty()
    );
}
