/** Processor time: of this process, of others, and which part of the program spends it; and what it allocates. */
import fs from 'node:fs'
import inspector from 'node:inspector'

/** The parts that are told apart. `other` is what measures. */
export const PARTS = [
  'core',
  'client',
  'service',
  'store',
  'driver',
  'Node',
  'GC',
  'other',
] as const
export type Part = (typeof PARTS)[number]

/** Of everything that the process did; sums up to 1. */
export type Shares = Readonly<Record<Part, number>>

const SAMPLE_US = 250
/** One sample for so many bytes that are allocated. */
const SAMPLE_BYTES = 1_024
/** Linux counts the processor time of a process in hundredths of a second, on every platform that Node runs on. */
const TICK_US = 10_000

export function ownProcessorUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** Null where the system does not tell. */
export function processorUsOf(pids: readonly number[]): number | null {
  try {
    return pids.reduce((sum, pid) => sum + ticksOf(pid), 0) * TICK_US
  } catch {
    return null
  }
}

function ticksOf(pid: number): number {
  // The name in brackets may hold spaces, so the fields are counted from behind it: the 12th and 13th there.
  const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

/** Runs the work under V8's sampling profiler and says which parts took which share. */
export async function sharesOf(work: () => Promise<unknown>): Promise<Shares> {
  const session = new inspector.Session()
  session.connect()
  try {
    await post(session, 'Profiler.enable')
    await post(session, 'Profiler.setSamplingInterval', { interval: SAMPLE_US })
    await post(session, 'Profiler.start')
    await work()
    const { profile } = (await post(session, 'Profiler.stop')) as inspector.Profiler.StopReturnType
    return sharesIn(profile)
  } finally {
    session.disconnect()
  }
}

/** Runs the work under V8's sampling heap profiler: bytes that it allocates, whether or not they are garbage by then. */
export async function allocatedBytes(work: () => Promise<unknown>): Promise<number> {
  const session = new inspector.Session()
  session.connect()
  try {
    await post(session, 'HeapProfiler.enable')
    await post(session, 'HeapProfiler.startSampling', {
      samplingInterval: SAMPLE_BYTES,
      includeObjectsCollectedByMajorGC: true,
      includeObjectsCollectedByMinorGC: true,
    })
    await work()
    const { profile } = (await post(
      session,
      'HeapProfiler.stopSampling',
    )) as inspector.HeapProfiler.StopSamplingReturnType
    return sizeBelow(profile.head)
  } finally {
    session.disconnect()
  }
}

function sizeBelow({ selfSize, children }: inspector.HeapProfiler.SamplingHeapProfileNode): number {
  return children.reduce((sum, child) => sum + sizeBelow(child), selfSize)
}

function post(session: inspector.Session, method: string, params: object = {}): Promise<unknown> {
  return new Promise((resolve, reject) => {
    session.post(method, params, (error, result) => {
      if (error === null) resolve(result)
      else reject(new Error(error.message))
    })
  })
}

function sharesIn({ nodes, samples = [], timeDeltas = [] }: inspector.Profiler.Profile): Shares {
  const partOfNode = new Map(nodes.map(({ id, callFrame }) => [id, partOf(callFrame)]))
  const spent = new Map<Part, number>()
  let total = 0
  for (const [index, id] of samples.entries()) {
    const part = partOfNode.get(id) ?? null
    const us = timeDeltas[index] ?? 0
    if (part === null) continue
    spent.set(part, (spent.get(part) ?? 0) + us)
    total += us
  }
  const share = (part: Part): number => (total === 0 ? 0 : (spent.get(part) ?? 0) / total)
  return Object.fromEntries(PARTS.map((part) => [part, share(part)])) as unknown as Shares
}

const FOLDERS: readonly (readonly [string, Part])[] = [
  ['/node_modules/', 'driver'],
  ['/src/core/', 'core'],
  ['/src/service/', 'service'],
  ['/src/store/', 'store'],
  ['/src/', 'client'],
  ['/bench/', 'other'],
]

/** Null: the process had nothing to do. */
function partOf({ functionName, url }: inspector.Runtime.CallFrame): Part | null {
  if (functionName === '(idle)') return null
  if (functionName === '(garbage collector)') return 'GC'
  return FOLDERS.find(([folder]) => url.includes(folder))?.[1] ?? 'Node'
}
