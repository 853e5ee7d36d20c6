/** The process of {@link runSubject}. */
import { runSubject, type CrashOrder } from './crash-subject.ts'

await runSubject(JSON.parse(process.argv[2] ?? '') as CrashOrder)
process.exit(0)
