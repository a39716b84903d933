{{- define "tidegate.labels" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidegate.pod" -}}
metadata:
  labels:
    {{- include "tidegate.labels" . | nindent 4 }}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: tidegate
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- with .Values.existingSecret }}
      env:
        - name: TIDEGATE_CLIENT_HMAC
          valueFrom: { secretKeyRef: { name: {{ . }}, key: client_hmac } }
      {{- end }}
      ports:
        {{- range .Values.ports }}
        - { name: {{ .name }}, containerPort: {{ .containerPort }} }
        {{- end }}
        - { name: metrics, containerPort: {{ .Values.metricsPort }} }
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      # a start may wait for stores and for the names of origins
      startupProbe:
        httpGet: { path: /readyz, port: metrics }
        periodSeconds: 1
        failureThreshold: 60
      readinessProbe:
        httpGet: { path: /readyz, port: metrics }
        periodSeconds: 2
        failureThreshold: 2
      livenessProbe:
        httpGet: { path: /healthz, port: metrics }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      lifecycle:
        preStop:
          sleep: { seconds: {{ .Values.preStopSeconds }} }
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        # a folder: a single file of a ConfigMap (`subPath`) would never be renewed
        - { name: policy, mountPath: /etc/tidegate, readOnly: true }
        - { name: run, mountPath: /run/tidegate }
  volumes:
    - name: policy
      configMap: { name: {{ .Release.Name }} }
    # the admin socket: `kubectl exec POD -- tidegate status`
    - name: run
      emptyDir: { medium: Memory, sizeLimit: 1Mi }
{{- end }}
