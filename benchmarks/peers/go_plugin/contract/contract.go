// Package contract is what host and plugin agree on: a handshake, and a gRPC service of one method.
//
// The service is described by hand, with messages that protobuf brings along: what protoc would
// generate for it does the same.
package contract

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// Name is what the host asks the plugin process for.
	Name    = "deeds"
	service = "benchmark.Deeds"
)

// Handshake keeps people from starting a plugin by hand.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  1,
	MagicCookieKey:   "BENCHMARK_PLUGIN",
	MagicCookieValue: "deeds",
}

// Deed is text in, text out.
type Deed func(text string) string

// Plugin is both sides of it, as go-plugin wants them.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	Deeds map[string]Deed
}

// GRPCServer serves every deed as a method of its own.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	description := grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	for name, deed := range p.Deeds {
		description.Methods = append(description.Methods, method(name, deed))
	}
	server.RegisterService(&description, p)
	return nil
}

func method(name string, deed Deed) grpc.MethodDesc {
	handle := func(_ context.Context, request any) (any, error) {
		return wrapperspb.String(deed(request.(*wrapperspb.StringValue).Value)), nil
	}
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(_ any, ctx context.Context, decode func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
			request := new(wrapperspb.StringValue)
			if err := decode(request); err != nil {
				return nil, err
			}
			if around == nil {
				return handle(ctx, request)
			}
			info := &grpc.UnaryServerInfo{FullMethod: "/" + service + "/" + name}
			return around(ctx, request, info, handle)
		},
	}
}

// GRPCClient gives the host its end.
func (*Plugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, connection *grpc.ClientConn) (any, error) {
	return &Client{connection}, nil
}

// Client calls a plugin's deeds.
type Client struct {
	connection *grpc.ClientConn
}

// Call gives the deed a text and returns the text that comes back.
func (c *Client) Call(ctx context.Context, deed, text string) (string, error) {
	reply := new(wrapperspb.StringValue)
	err := c.connection.Invoke(ctx, "/"+service+"/"+deed, wrapperspb.String(text), reply)
	return reply.Value, err
}

// Open starts a plugin process, or uses one that plugin.NewClient has started.
func Open(process *plugin.Client) (*Client, error) {
	protocol, err := process.Client()
	if err != nil {
		return nil, err
	}
	raw, err := protocol.Dispense(Name)
	if err != nil {
		return nil, err
	}
	client, ok := raw.(*Client)
	if !ok {
		return nil, errors.New("the plugin is of another kind")
	}
	return client, nil
}
