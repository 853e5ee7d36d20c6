/** `tenure mcp`: leases as tools of a model, for the client that starts this process and speaks with it over stdin and stdout. */
import path from 'node:path'
import { invalid } from '../../core/errors.ts'
import { LeaseKeeper, type LeaseHost } from '../../mcp/lease-host.ts'
import { openApi } from '../../open.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { version } from '../../runtime/version.ts'
import { ServerWaits } from '../../server/server-waits.ts'
import { directoryOption } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { storeFor } from '../identity.ts'
import { loadWith } from '../optional-packages.ts'
import { readReach } from '../resource-argument.ts'
import { listenForInterruption } from '../signals.ts'
import { optionsOf } from '../store-access.ts'

const options = {
  root: directoryOption('root', 'what paths are relative to (default: the working directory)'),
}

type McpTable = typeof options

export const mcp: CliCommand = defineCommand({
  positionals: [],
  options,
  notes: [
    'For the configuration of a client of MCP: tenure init mcp writes it. Six tools take, renew, release, wait for and show leases; the resource lease://active lists them.',
    'What was taken is renewed while this process lives, four hours at most, and released when stdin ends. Without --store and TENURE_STORE the store is that of the repository that DIR is in.',
  ],
  examples: ['tenure mcp', 'tenure mcp --root /srv/project --holder agent-7'],
  run,
})

const PACKAGES = ['@modelcontextprotocol/server']
const CLOSE_WITHIN_MS = 2_000

async function run(call: CliCall<McpTable>): Promise<number> {
  const { serveLeasesOnStdio } = await loadWith('tenure mcp', PACKAGES, () => {
    return import('../../mcp/mcp-server.ts')
  })
  const root = rootOf(call)
  const { identity } = call
  const api = await openApi(storeFor(identity, root, process.env), optionsOf(identity))
  const interruption = listenForInterruption()
  const keeper = new LeaseKeeper(api, systemRuntime)
  const waits = new ServerWaits({ api, runtime: systemRuntime, onGrant: () => undefined })
  const host = { ...hostOn(waits, keeper, root), api, holder: identity.holder }
  // As the SDK writes, which hears of a client that reads no more: what was taken is released when stdin ends.
  const write = (text: string): void => void process.stdout.write(text)
  const streams = { input: process.stdin, write }
  const face = serveLeasesOnStdio(host, version(), streams)
  try {
    await endOf(interruption.signal)
  } finally {
    waits.stop()
    await face.close()
    await keeper.close()
    await waits.closeForGood(CLOSE_WITHIN_MS)
    await api.close()
    interruption.stop()
  }
  return 0
}

function rootOf({ options, cwd }: CliCall<McpTable>): string {
  const root = path.resolve(cwd, options.root ?? '.')
  if (ifThere(() => fs.statSync(root))?.isDirectory() === true) return root
  throw invalid('root', 'must be a directory', root)
}

/** What was granted is renewed by the keeper, and paths are taken from the root. */
function hostOn(
  waits: ServerWaits,
  keeper: LeaseKeeper,
  root: string,
): Omit<LeaseHost, 'api' | 'holder'> {
  return {
    ...{ runtime: systemRuntime, ttlMs: null },
    lifetime: 'They are renewed while this server lives, four hours at most.',
    acquire: (request, connection) => waits.acquire(request, connection),
    acquireAll: (request, connection) => waits.acquireAll(request, connection),
    readReach: (text) => readReach(text, root),
    onCall: async () => undefined,
    onGranted: (leases) => {
      for (const lease of leases) keeper.keep(lease)
    },
    onReleased: (leaseId) => keeper.forget(leaseId),
  }
}

/** Of standard input, or of this process. */
function endOf(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => resolve()
    if (signal.aborted) return end()
    signal.addEventListener('abort', end, { once: true })
    process.stdin.once('end', end)
    process.stdin.once('close', end)
    process.stdin.once('error', end)
  })
}
