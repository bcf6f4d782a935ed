{{/* The name of everything that the release has. */}}
{{- define "pinfold.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (default .Chart.Name .Values.nameOverride) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (default .Chart.Name .Values.nameOverride) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pinfold.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pinfold.labels" -}}
{{ include "pinfold.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | replace "@" "_" | replace ":" "_" | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "pinfold.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "pinfold.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* zoo.cfg. A member's number is that of its pod plus one: ids begin at 1. */}}
{{- define "pinfold.zoocfg" -}}
dataDir=/data
clientPort=2181
admin.enableServer=true
admin.serverPort=8080
{{- range $key, $value := .Values.config }}
{{- if ne (toString $value) "" }}
{{ $key }}={{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- end }}
db.autocreate={{ .Values.newEnsemble }}
{{- if gt (int .Values.replicas) 1 }}
quorumListenOnAllIPs=true
{{- $name := include "pinfold.fullname" . }}
{{- $domain := printf "%s-members.%s.svc.%s" $name .Release.Namespace .Values.clusterDomain }}
{{- range $i := until (int .Values.replicas) }}
server.{{ add1 $i }}={{ $name }}-{{ $i }}.{{ $domain }}:2888:3888
{{- end }}
{{- end }}
{{- end -}}
