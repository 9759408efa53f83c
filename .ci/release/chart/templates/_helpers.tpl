{{- define "debrief.image" -}}
{{- $root := index . 0 -}}
{{ $root.Values.registry }}/{{ index . 1 }}:{{ $root.Values.tag | default (replace "+" "-" $root.Chart.AppVersion) }}
{{- end }}
