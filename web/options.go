// Package web is what people and monitoring see: pages and their JSON.
package web

// Options say who may look, and at what.
type Options struct {
	AllowedHosts []string // Host values besides loopback ones, without port
	KeyLabels    bool     // /metrics names the keys
}
