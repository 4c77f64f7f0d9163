package gemini

import (
	"strings"

	"coding-proxy/proxy/ir"
)

// tools decodes tools: each element may hold functions and tools of the provider.
func (rd *reader) tools(v []byte) error {
	return array(v, "tools", func(i int, v []byte) error {
		at := ir.Element("tools", i)
		return object(v, at, func(key, v []byte) error {
			path := at + "." + string(key)
			switch string(key) {
			case "functionDeclarations":
				return array(v, path, func(i int, v []byte) error { return rd.function(v, ir.Element(path, i)) })
			case "mcpServers":
				return ir.Refuse(path, "servers of tools cannot be reached through another provider")
			case "googleSearch", "googleSearchRetrieval":
				return rd.search(v, path)
			}
			rd.r.Tools = append(rd.r.Tools, ir.Tool{At: path, Kind: ir.ToolHosted, Hosted: ir.Hosted{Type: string(key)}})
			return rd.options(v, path, "tools."+string(key)+".")
		})
	})
}

// options names what a provider's tool is told beside its name.
func (rd *reader) options(v []byte, at, prefix string) error {
	return object(v, at, func(key, _ []byte) error {
		rd.lose(prefix, key)
		return nil
	})
}

// search decodes googleSearch.
func (rd *reader) search(v []byte, at string) error {
	t := ir.Tool{At: at, Kind: ir.ToolHosted, Hosted: ir.Hosted{Type: ir.WebSearch}}
	err := object(v, at, func(key, v []byte) error {
		if string(key) == "excludeDomains" {
			return texts(v, at+".excludeDomains", &t.Hosted.BlockedDomains)
		}
		rd.lose("tools.googleSearch.", key)
		return nil
	})
	rd.r.Tools = append(rd.r.Tools, t)
	return err
}

// function decodes a functionDeclaration.
func (rd *reader) function(v []byte, at string) error {
	t := ir.Tool{At: at}
	err := object(v, at, func(key, v []byte) error {
		path := at + "." + string(key)
		switch string(key) {
		case "name":
			return text(v, path, &t.Name)
		case "description":
			return text(v, path, &t.Description)
		case "parameters", "parametersJsonSchema":
			if !isObject(v) {
				return ir.Refuse(path, "must be an object")
			}
			t.Schema = rd.schema(v)
		default: // response, responseJsonSchema, behavior
			rd.lose("functionDeclarations.", key)
		}
		return nil
	})
	if err == nil && t.Name == "" {
		err = ir.Refuse(at+".name", "is required")
	}
	rd.r.Tools = append(rd.r.Tools, t)
	return err
}

// toolConfig decodes which tools are to be called.
func (rd *reader) toolConfig(v []byte) error {
	const at = "toolConfig"
	return object(v, at, func(key, v []byte) error {
		if string(key) == "functionCallingConfig" {
			return rd.calling(v, at+".functionCallingConfig")
		}
		rd.lose("toolConfig.", key) // retrievalConfig, includeServerSideToolInvocations
		return nil
	})
}

// calling decodes functionCallingConfig. ANY with one name is that tool.
func (rd *reader) calling(v []byte, at string) error {
	c := &rd.r.Choice
	var mode string
	var names []string
	err := object(v, at, func(key, v []byte) error {
		switch string(key) {
		case "mode":
			return text(v, at+".mode", &mode)
		case "allowedFunctionNames":
			return texts(v, at+".allowedFunctionNames", &names)
		}
		rd.lose("toolConfig.functionCallingConfig.", key)
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range names {
		c.Names = append(c.Names, ir.ToolName{Name: n})
	}
	switch strings.ToUpper(mode) {
	case "AUTO":
		c.Mode = ir.ChoiceAuto
	case "VALIDATED": // AUTO whose arguments are held to the schemas
		c.Mode = ir.ChoiceAuto
		rd.r.LosePath(at + ".mode")
	case "ANY":
		if c.Mode = ir.ChoiceRequired; len(names) == 1 {
			c.Mode = ir.ChoiceOne
		}
	case "NONE":
		c.Mode, c.Names = ir.ChoiceNone, nil
	case "", "MODE_UNSPECIFIED":
		if len(names) > 0 {
			c.Mode = ir.ChoiceAuto
		}
	default:
		return ir.Refuse(at+".mode", "must be AUTO, ANY, NONE or VALIDATED")
	}
	return nil
}
