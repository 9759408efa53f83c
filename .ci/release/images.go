package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// refName is the annotation with the name of an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// makeImages builds each target of deploy/Dockerfile as 'docker build' would, for each platform of Linux, with one more layer:
// the licenses. It writes an OCI layout with an index of platforms for each image, and for each platform a tar for 'docker load'.
func makeImages(b *build) error {
	text, err := os.Open(filepath.Join(b.root, "deploy/Dockerfile"))
	if err != nil {
		return err
	}
	defer text.Close()
	file, err := parser.Parse(text)
	if err != nil {
		return err
	}
	targets, _, err := instructions.Parse(file.AST, nil)
	if err != nil {
		return err
	}
	dir, err := layout.Write(filepath.Join(b.out, "images"), empty.Index)
	if err != nil {
		return err
	}
	loadable := map[platform][]namedImage{}
	for _, target := range targets {
		ref, err := name.NewTag(b.home.registry + "/" + target.Name + ":" + imageTag(b.version))
		if err != nil {
			return err
		}
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, p := range b.linux() {
			image, err := b.image(p, target)
			if err != nil {
				return fmt.Errorf("%s: %w", target.Name, err)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
			})
			loadable[p] = append(loadable[p], namedImage{ref, image})
		}
		if err := dir.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: ref.Name()})); err != nil {
			return err
		}
	}
	for p, images := range loadable {
		tar := filepath.Join(b.out, "debrief_"+b.version+"_images_"+p.arch+".tar")
		if err := writeLoadable(tar, images, b.time); err != nil {
			return err
		}
	}
	return nil
}

// namedImage is an image for one platform with its name.
type namedImage struct {
	name.Reference
	v1.Image
}

// writeLoadable writes a tar for 'docker load'. Package tarball writes images in the order of a map, which is another one each time.
func writeLoadable(file string, images []namedImage, at time.Time) error {
	var manifest tarball.Manifest
	var entries []entry
	known := map[string]bool{}
	add := func(name string, data []byte) {
		if !known[name] { // images share the layer of the licenses
			entries = append(entries, entry{name: name, data: data, mode: 0o644})
		}
		known[name] = true
	}
	for _, image := range images {
		digest, err := image.ConfigName()
		if err != nil {
			return err
		}
		config, err := image.RawConfigFile()
		if err != nil {
			return err
		}
		add(digest.String(), config)
		d := tarball.Descriptor{Config: digest.String(), RepoTags: []string{image.Name()}}
		layers, err := image.Layers()
		if err != nil {
			return err
		}
		for _, layer := range layers {
			name, data, err := readLayer(layer)
			if err != nil {
				return err
			}
			add(name, data)
			d.Layers = append(d.Layers, name)
		}
		manifest = append(manifest, d)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	add("manifest.json", text)
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(tarTo(out, entries, at), out.Close())
}

// readLayer returns the name of a layer in a tar for 'docker load', and its compressed content.
func readLayer(layer v1.Layer) (name string, data []byte, err error) {
	digest, err := layer.Digest()
	if err != nil {
		return "", nil, err
	}
	r, err := layer.Compressed()
	if err != nil {
		return "", nil, err
	}
	data, err = io.ReadAll(r)
	return digest.Hex + ".tar.gz", data, errors.Join(err, r.Close())
}

// imageTag returns a version as a tag, which may not contain a plus.
func imageTag(version string) string { return strings.ReplaceAll(version, "+", "-") }

// image builds a target of the Dockerfile for a platform.
func (b *build) image(p platform, target instructions.Stage) (v1.Image, error) {
	if target.BaseName != "scratch" {
		return nil, fmt.Errorf("FROM %s: want scratch", target.BaseName)
	}
	var layers []mutate.Addendum
	config := v1.Config{ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}, Labels: map[string]string{
		"org.opencontainers.image.version": b.version, "org.opencontainers.image.revision": b.revision,
		"org.opencontainers.image.url": b.home.homepage, "org.opencontainers.image.licenses": "Apache-2.0",
	}}
	for _, command := range target.Commands {
		switch c := command.(type) {
		case *instructions.CopyCommand:
			entries, err := b.copied(p, c)
			if err != nil {
				return nil, err
			}
			layer, err := b.layer(c.String(), entries)
			if err != nil {
				return nil, err
			}
			layers = append(layers, layer)
		case *instructions.EnvCommand:
			for _, pair := range c.Env {
				config.Env = append(config.Env, pair.Key+"="+pair.Value)
			}
		case *instructions.ExposeCommand:
			for _, port := range c.Ports {
				config.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case *instructions.VolumeCommand:
			for _, volume := range c.Volumes {
				config.Volumes[volume] = struct{}{}
			}
		case *instructions.HealthCheckCommand:
			config.Healthcheck = &v1.HealthConfig{
				Test: c.Health.Test, Interval: c.Health.Interval, Timeout: c.Health.Timeout, StartPeriod: c.Health.StartPeriod, Retries: c.Health.Retries,
			}
		case *instructions.UserCommand:
			config.User = c.User
		case *instructions.EntrypointCommand:
			config.Entrypoint = c.CmdLine
		case *instructions.CmdCommand:
			config.Cmd = c.CmdLine
		default:
			return nil, fmt.Errorf("%s: the release does not know this instruction", command.Name())
		}
	}
	licenses, err := directory(filepath.Join(b.stage, "licenses"), "licenses")
	if err != nil {
		return nil, err
	}
	last, err := b.layer("licenses", licenses)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: p.os, Architecture: p.arch, Created: v1.Time{Time: b.time}, Config: config})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, append(layers, last)...)
}

// copied returns the files of a COPY instruction. Its sources are programs, or the empty directory 'data'.
func (b *build) copied(p platform, c *instructions.CopyCommand) ([]entry, error) {
	user, _, _ := strings.Cut(c.Chown, ":")
	uid, err := strconv.Atoi(user)
	if err != nil || c.Chown != user+":"+user || c.Chmod != "" || len(c.SourcePaths) != 1 {
		return nil, fmt.Errorf("%s: want one source and --chown=N:N", c)
	}
	if c.SourcePaths[0] == "data" {
		return []entry{{name: strings.Trim(c.DestPath, "/") + "/", mode: fs.ModeDir | 0o755, user: uid}}, nil
	}
	source := filepath.Join(b.bin(p), c.SourcePaths[0])
	return []entry{{name: path.Join(c.DestPath, c.SourcePaths[0])[1:], source: source, mode: 0o755, user: uid}}, nil
}

func (b *build) layer(by string, entries []entry) (mutate.Addendum, error) {
	var tar bytes.Buffer
	if err := tarTo(&tar, entries, b.time); err != nil {
		return mutate.Addendum{}, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(tar.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	return mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: b.time}, CreatedBy: by}}, err
}

// pushImages pushes the images of an output folder under the names that they got from home.env, with the credentials of
// 'docker login'.
func pushImages(out string, h home) error {
	dir, err := layout.FromPath(filepath.Join(out, "images"))
	if err != nil {
		return err
	}
	all, err := dir.ImageIndex()
	if err != nil {
		return err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range manifest.Manifests {
		text := d.Annotations[refName]
		ref, err := name.NewTag(text)
		if err != nil {
			return fmt.Errorf("image %q: %w", text, err)
		}
		if !strings.HasPrefix(text, h.registry+"/") {
			return fmt.Errorf("image %q is not for %s: build the release again", text, h.registry)
		}
		index, err := all.ImageIndex(d.Digest)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", text, d.Digest)
	}
	return nil
}
