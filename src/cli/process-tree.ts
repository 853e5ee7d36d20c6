/**
 * What a process has started, and what that has started, as Linux tells it. Elsewhere nobody is found, and only the
 * process itself can be signalled.
 */
import { report } from '../runtime/diagnostics.ts'
import { fs, hasCode } from '../runtime/file-system.ts'

/** A process that cannot be mistaken for a later one with the same number. */
export interface ProcessRef {
  readonly pid: number
  /** Ticks since boot at which it started. */
  readonly started: string
}

interface ProcessEntry extends ProcessRef {
  readonly parent: number
}

/** Everything below a process, the process itself not included. */
export function descendantsOf(pid: number): readonly ProcessRef[] {
  const entries = listProcesses()
  const found: ProcessEntry[] = []
  let parents = new Set([pid])
  while (parents.size > 0) {
    const children = entries.filter(({ parent }) => parents.has(parent))
    found.push(...children)
    parents = new Set(children.map((child) => child.pid))
  }
  return found
}

/**
 * Signals the very process that was meant; one that is gone, or whose number another has now, is left alone. One that is
 * not ours to signal is reported.
 */
export function signalProcess({ pid, started }: ProcessRef, signal: NodeJS.Signals): void {
  if (readEntry(String(pid))?.started !== started) return
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) report('cli/signal', error)
  }
}

function listProcesses(): readonly ProcessEntry[] {
  try {
    const names = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    return names.map(readEntry).filter((entry) => entry !== null)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) report('cli/process-tree', error)
    return []
  }
}

/** `pid (name) state ppid …`; the name may hold anything, so what follows is counted from its last bracket. */
function readEntry(pid: string): ProcessEntry | null {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { pid: Number(pid), parent: Number(fields[1]), started: fields[19] ?? '' }
  } catch (error) {
    if (!hasCode(error, 'ENOENT', 'ESRCH')) report('cli/process-tree', error)
    return null
  }
}
