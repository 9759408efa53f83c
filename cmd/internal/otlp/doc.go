// Package otlp sends spans to an OpenTelemetry collector over OTLP/HTTP, as protobuf. It receives nothing, and it sends no
// metrics and no logs.
//
// The exporter of the OpenTelemetry project links gRPC, grpc-gateway and text templates, which add 3 MB to each worker. The
// message has few types, so this package writes it with protowire. A test compares it with the transformation of that project.
//
// The environment variables of OpenTelemetry set the headers, the certificates and the compression (see Options). The
// package ignores OTEL_EXPORTER_OTLP_PROTOCOL and OTEL_EXPORTER_OTLP_TIMEOUT.
package otlp
