/** On what kind of disk a folder lies: how long a durable write takes depends on little else. */
import fs from 'node:fs'

/** `stat -f` would not tell ext4 from ext2: they share a number. */
export function fileSystemOf(folder: string): string {
  try {
    return fileSystemIn(fs.readFileSync('/proc/self/mountinfo', 'utf8'), fs.realpathSync(folder))
  } catch {
    return 'unknown'
  }
}

/** The mount point nearest above the folder decides; of several at one place the last one covers the others. */
export function fileSystemIn(mountInfo: string, folder: string): string {
  const above = mountInfo
    .split('\n')
    .map(mountOf)
    .filter(({ point }) => isWithin(folder, point))
  const [nearest] = above.toReversed().toSorted((a, b) => b.point.length - a.point.length)
  return nearest?.type ?? 'unknown'
}

/** The fifth field is the mount point; a dash ends the optional fields, and the type follows it. */
function mountOf(line: string): { readonly point: string; readonly type: string | undefined } {
  const fields = line.split(' ')
  const type = fields[fields.indexOf('-', 6) + 1]
  return { point: unescaped(fields[4] ?? ''), type }
}

function unescaped(point: string): string {
  return point.replaceAll(/\\(\d{3})/g, (_, octal: string) =>
    String.fromCodePoint(Number.parseInt(octal, 8)),
  )
}

function isWithin(folder: string, point: string): boolean {
  if (point === '') return false
  return folder === point || folder.startsWith(point.endsWith('/') ? point : `${point}/`)
}
