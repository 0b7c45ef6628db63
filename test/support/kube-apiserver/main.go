// Package main is Kubernetes' own API server, for the tests that ask it whether it takes what `inject` writes.
package main

import (
	"os"
	// A CronJob may name a time zone, and the machine may have no zone files.
	_ "time/tzdata"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
