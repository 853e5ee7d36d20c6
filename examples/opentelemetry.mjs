/**
 * Turns the calls that Tenure makes to its store into spans of OpenTelemetry, printed here by its console exporter.
 * Tenure itself needs nothing of it: it publishes its calls on tracing channels of Node.
 */
import { tracingChannel } from 'node:diagnostics_channel'
import { SpanStatusCode, trace } from '@opentelemetry/api'
import {
  BasicTracerProvider,
  ConsoleSpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { openTenure } from 'tenure'

const processor = new SimpleSpanProcessor(new ConsoleSpanExporter())
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [processor] }))

/** Each call is one object from its start to its end. */
function traceCalls(calls) {
  const tracer = trace.getTracer('tenure')
  const spans = new WeakMap()
  for (const call of calls) {
    tracingChannel(`tenure:${call}`).subscribe({
      start: (message) => {
        const { store, resource, holder, leaseId } = message
        const attributes = { store, resource, holder, leaseId }
        spans.set(message, tracer.startSpan(`tenure ${call}`, { attributes }))
      },
      asyncEnd: (message) => {
        const { result, error } = message
        const span = spans.get(message)
        // Being refused is an answer; an error is a call without one.
        span?.setAttribute('outcome', error?.code ?? result?.kind)
        if (error !== undefined)
          span?.setStatus({ code: SpanStatusCode.ERROR, message: error.message })
        span?.end()
      },
    })
  }
}

traceCalls(['acquire', 'claim', 'renew', 'release'])
const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const tenure = await openTenure(store, { holder: 'agent-7' })
await tenure.withLease('work:W-17', { ttlMs: 30_000 }, async () => tenure.tryAcquire('work:W-17'))
await tenure.close()
