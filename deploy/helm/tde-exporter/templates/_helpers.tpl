{{- define "tde-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- /* 52 characters: a StatefulSet adds a hash of eleven to the names of its pods' revisions. */ -}}
{{- define "tde-exporter.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "tde-exporter.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tde-exporter.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tde-exporter.selector" -}}
app.kubernetes.io/name: {{ include "tde-exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tde-exporter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "tde-exporter.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tde-exporter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tde-exporter.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tde-exporter.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "tde-exporter.probe" -}}
{{- $ := index . 0 -}}
{{- if $.Values.web.clientCertificates -}}
exec:
  command: [tde-exporter-healthy]
{{- else -}}
httpGet:
  path: {{ index . 1 }}
  port: http
  scheme: {{ $.Values.web.scheme }}
{{- end }}
{{- end -}}
