{{/* What every pod of the chart has. */}}

{{- define "kfm.name" -}}
{{ .Release.Name | trunc 30 | trimSuffix "-" }}
{{- end }}

{{- define "kfm.labels" -}}
app.kubernetes.io/name: kfm
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "kfm.metadataLabels" -}}
{{ include "kfm.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{- define "kfm.account" -}}
{{ .Values.serviceAccount.name | default (include "kfm.name" .) }}
{{- end }}

{{- define "kfm.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end }}

{{- define "kfm.key" -}}
{{ . | replace "/" "__" }}
{{- end }}

{{- define "kfm.configDigest" -}}
{{ printf "%s %s" .Values.config (toJson .Values.files) | sha256sum }}
{{- end }}

{{/* Metadata of a pod template: root, component, and labels of its own. */}}
{{- define "kfm.podMetadata" -}}
labels:
  {{- include "kfm.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component | quote }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kfm/config-digest: {{ include "kfm.configDigest" .root | quote }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "kfm.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The spec of a pod: root, component, args, resources, and ports, probes, secrets and scheduling of its own. */}}
{{- define "kfm.podSpec" -}}
{{- $root := .root -}}
{{- $secrets := .secrets | default dict -}}
{{- $env := concat $root.Values.secrets.env ($secrets.env | default list) -}}
{{- $files := concat $root.Values.secrets.files ($secrets.files | default list) -}}
serviceAccountName: {{ include "kfm.account" $root | quote }}
automountServiceAccountToken: {{ $root.Values.serviceAccount.workloadIdentity }}
{{- /* A service of the chart would become a variable KFM_…, and KFM refuses those that are no settings. */}}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .drainSeconds | default 60 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- if .spread }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "kfm.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component | quote }}
        {{- with $.labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  {{- end }}
{{- end }}
{{- with (.nodeSelector | default $root.Values.nodeSelector) }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (.tolerations | default $root.Values.tolerations) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $files }}
{{- /* Kubernetes opens the files of a secret to the group of the pod; KFM takes only files that are its own. */}}
initContainers:
  - name: secrets
    image: {{ include "kfm.image" $root | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [install, --mode=0400, --target-directory=/run/kfm/secrets]
    args:
      {{- range . }}
      - {{ printf "/run/kfm/mounted/%s" .name | quote }}
      {{- end }}
    {{- include "kfm.containerSecurity" $root | nindent 4 }}
    resources:
      requests: {cpu: 10m, memory: 16Mi, ephemeral-storage: 1Mi}
      limits: {cpu: 100m, memory: 64Mi, ephemeral-storage: 16Mi}
    volumeMounts:
      - {name: mounted, mountPath: /run/kfm/mounted, readOnly: true}
      - {name: secrets, mountPath: /run/kfm/secrets}
{{- end }}
containers:
  - name: kfm
    image: {{ include "kfm.image" $root | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [python, -m]
    args: {{ toJson .args }}
    workingDir: /kfm
    env:
      - {name: HOME, value: /tmp}
      - {name: KFM_WORKER_IMAGE, value: {{ include "kfm.image" $root | quote }}}
      {{- range $env }}
      - name: {{ .name }}
        valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}}
      {{- end }}
    {{- with .ports }}
    ports:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .probes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    resources:
      {{- toYaml .resources | nindent 6 }}
    {{- include "kfm.containerSecurity" $root | nindent 4 }}
    volumeMounts:
      - {name: scratch, mountPath: /tmp}
      - {name: private, mountPath: /kfm/.kfm}
      - {name: config, mountPath: /kfm/kfm.yml, subPath: kfm.yml, readOnly: true}
      {{- range $path, $_ := $root.Values.files }}
      - {name: config, mountPath: {{ printf "/kfm/%s" $path | quote }}, subPath: {{ include "kfm.key" $path | quote }}, readOnly: true}
      {{- end }}
      {{- if $files }}
      - {name: secrets, mountPath: /run/kfm/secrets, readOnly: true}
      {{- end }}
volumes:
  - name: scratch
    emptyDir: {sizeLimit: {{ $root.Values.scratch.size | quote }}}
  - name: private
    emptyDir: {sizeLimit: {{ $root.Values.scratch.privateSize | quote }}}
  - name: config
    configMap: {name: {{ include "kfm.name" $root | quote }}, defaultMode: 0444}
  {{- if $files }}
  - name: secrets
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  - name: mounted
    projected:
      defaultMode: 0440
      sources:
        {{- range $files }}
        - secret: {name: {{ .secret | quote }}, items: [{key: {{ .key | quote }}, path: {{ .name | quote }}}]}
        {{- end }}
  {{- end }}
{{- end }}
