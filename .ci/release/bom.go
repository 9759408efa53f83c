package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// makeBOM writes a bill of materials in the format CycloneDX: the programs, the modules that the linker put into each, on any
// platform, and the version of Go.
func makeBOM(b *build) error {
	bom := cdx.NewBOM()
	// The serial number must be unique for each content, and the same for the same content.
	serial := sha256.Sum256([]byte(b.home.homepage + b.version + b.revision))
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-5%03x-8%03x-%x", serial[0:4], serial[4:6],
		uint16(serial[6])<<4|uint16(serial[7]>>4), uint16(serial[8])<<4|uint16(serial[9]>>4), serial[10:16])
	bom.Metadata = &cdx.Metadata{
		Timestamp: b.time.UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "debrief", Type: cdx.ComponentTypeApplication, Name: "debrief", Version: b.version,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
	}
	var components []cdx.Component
	linked := map[string][]string{}
	for _, m := range b.modules {
		// A purl, https://github.com/package-url/purl-spec: Go's module paths are lower case in it.
		ref := "pkg:golang/" + strings.ToLower(m.path) + "@" + m.version
		c := cdx.Component{BOMRef: ref, PackageURL: ref, Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version}
		if sum, ok := strings.CutPrefix(m.sum, "h1:"); ok {
			raw, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return fmt.Errorf("%s: %w", m.path, err)
			}
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
		components = append(components, c)
		for _, program := range m.programs {
			linked[program] = append(linked[program], ref)
		}
	}
	all := []cdx.Dependency{{Ref: "debrief", Dependencies: new([]string)}}
	for _, program := range append([]string{"nats-server"}, programs...) {
		refs := linked[program]
		if refs == nil {
			continue // no platform of Linux, so no server
		}
		ref := "program/" + program
		components = append(components, cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: program, Version: b.version})
		all = append(all, cdx.Dependency{Ref: ref, Dependencies: &refs})
		*all[0].Dependencies = append(*all[0].Dependencies, ref)
	}
	bom.Components, bom.Dependencies = &components, &all
	out, err := os.Create(filepath.Join(b.out, "debrief_"+b.version+"_bom.cdx.json"))
	if err != nil {
		return err
	}
	return errors.Join(cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom), out.Close())
}
