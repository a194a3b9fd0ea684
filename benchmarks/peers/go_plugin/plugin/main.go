// The plugin. What it can do, benchmarks/plugins/deeds.py can do too.
package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"plughost.example/benchmark/contract"
)

var deeds = map[string]contract.Deed{
	"echo": func(text string) string { return text },
	"hang": func(text string) string {
		time.Sleep(time.Minute)
		return text
	},
	"noise": func(text string) string {
		fmt.Println("loading the model ...")
		return text
	},
	"huge": func(text string) string {
		size, _ := strconv.Atoi(text)
		return strings.Repeat("x", size)
	},
	"child": func(text string) string {
		sleeper := exec.Command("sleep", "60")
		if err := sleeper.Start(); err != nil {
			return err.Error()
		}
		return text
	},
}

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: contract.Handshake,
		Plugins:         map[string]plugin.Plugin{contract.Name: &contract.Plugin{Deeds: deeds}},
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
}
